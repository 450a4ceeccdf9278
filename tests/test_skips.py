"""A run ends with the reasons of its skips, each once, also where workers ran the tests."""

from __future__ import annotations

import ast

import pytest

from tests.launcher import ROOT

SKIPPING = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_without_a_tool(number):
    pytest.skip("needs a saw: buy\\none")

@pytest.mark.skipif(True, reason="needs two cores")
def test_without_cores():
    pass

def test_that_runs():
    pass
"""
WHOLE_FILE = """
import pytest

pytest.importorskip("no_such_package", reason="needs no_such_package: pip install it")
"""


@pytest.mark.long
def test_each_reason_is_one_line_with_a_count(pytester: pytest.Pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_a=SKIPPING, test_b=SKIPPING, test_c=WHOLE_FILE)
    done = pytester.runpytest_subprocess("-p", "tests.skips", "-n", "2")
    summary = [
        "*= skipped, and what they need =*",
        "   6  needs a saw: buy one",
        "   2  needs two cores",
        "   1  needs no_such_package: pip install it (a file)",
    ]
    done.stdout.fnmatch_lines(summary, consecutive=True)
    assert done.parseoutcomes() == {"passed": 2, "skipped": 9}


def test_a_test_that_wants_a_package_names_what_installs_it():
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip":
                reasons = [ast.unparse(one.value) for one in call.keywords if one.arg == "reason"]
                assert len(reasons) == 1, f"{file}:{call.lineno} gives no reason"
                (reason,) = reasons
                assert "needs " in reason, f"{file}:{call.lineno} gives {reason}"
                assert "pip install " in reason or "see docs/" in reason, f"{file}:{call.lineno}"
