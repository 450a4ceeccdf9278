"""A test that misses a tool of the system says what installs it; CI runs with and without them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.launcher import ROOT
from tests.system_tools import REQUIRED, TOOLS, read_tools

Outcome = tuple[dict[str, int], str]
"""How many tests ended how, and the output."""

MARKED = """
import pytest

@pytest.fixture
def needy():
    raise AssertionError("it is set up")

@pytest.mark.tools({names})
def test_it(needy):
    pass
"""


@pytest.fixture
def run_with(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Return a function that runs a test marked with tools, where PATH is an empty folder."""
    monkeypatch.setenv("PATH", str(pytester.mkdir("programs")))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes longer than the test
    monkeypatch.delenv(REQUIRED, raising=False)

    def run(*names: str) -> Outcome:
        pytester.makepyfile(MARKED.format(names=", ".join(map(repr, names))))
        done = pytester.runpytest_subprocess("-p", "tests.system_tools", "-p", "no:warnings", "-rs")
        return done.parseoutcomes(), done.stdout.str()

    return run


def test_a_missing_tool_skips_and_names_what_installs_it(run_with: Callable[..., Outcome]):
    outcomes, output = run_with("ssh", "shellcheck", "ssh-keygen")
    assert outcomes == {"skipped": 1}
    wanted = "needs shellcheck, ssh, ssh-keygen: apt-get install openssh-client shellcheck"
    assert wanted in output


def test_a_missing_tool_fails_where_ci_has_installed_them(
    run_with: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(REQUIRED, "required")
    outcomes, output = run_with("rsync")
    assert outcomes == {"errors": 1}
    assert "needs rsync: apt-get install rsync" in output
    assert "it is set up" not in output


def test_every_marker_names_a_tool_of_the_list():
    found = set()
    for file in (ROOT / "tests").rglob("*.py"):
        for names in re.findall(r"mark\.tools\(([^)]+)\)", file.read_text()):
            found.update(re.findall(r'"([^"]+)"', names))
    assert "shellcheck" in found
    assert found <= TOOLS.keys()


def test_a_tool_has_a_debian_package_or_another_remedy():
    tools = read_tools("# why\na|b  c\nd -  do this\n")
    assert [tool.remedy for tool in tools.values()] == ["apt-get install c", "do this"]
