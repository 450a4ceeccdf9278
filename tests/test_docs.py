"""The pages: links lead somewhere, and Python in them is Python."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from envlab.libraries import get_library
from envlab.training.arguments import play_parser, train_parser
from tests.launcher import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/*.md")]


def test_links_lead_to_files():
    for page in PAGES:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing


def test_modules_that_docstrings_name_exist():
    for file in [*ROOT.glob("envlab/**/*.py"), *ROOT.glob("source/**/*.py")]:
        for name in re.findall(r":mod:`~?(envlab[\w.]*)`", file.read_text()):
            path = name.replace(".", "/")
            ends = (f"{path}.py", f"{path}/__init__.py")
            assert any(
                (root / end).is_file() for root in (ROOT, ROOT / "source") for end in ends
            ), f"{file}: {name}"


def test_python_in_pages_parses():
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            assert ast.parse(block).body


def test_the_page_of_flags_has_every_flag():
    for library in ["rsl_rl", "rl_games", "skrl", "fast_sac"]:
        for make in [train_parser, play_parser]:
            page = (ROOT / "docs/flags.md").read_text()
            usage = make(get_library(library)).format_usage()
            flags = set(re.findall(r"--[\w-]+", usage)) - {"--help"}
            assert len(flags) > 10
            assert [name for name in sorted(flags) if not re.search(rf"{name}\b", page)] == []


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """The names of all tests."""
    return {
        name
        for path in ROOT.glob("tests/**/*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_tests_that_pages_name_exist(tests: set[str]):
    for page in PAGES:
        text = page.read_text()
        assert not set(re.findall(r"`(test_\w+)`", text)) - tests
        assert not [
            path
            for path in re.findall(r"`(tests/[\w/]+\.py)`", text)
            if not (ROOT / path).is_file()
        ]


@pytest.mark.long
@pytest.mark.slow
def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", f"--site-dir={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    warnings = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
    assert done.returncode == 0, "\n".join(warnings)
    reference = "".join(page.read_text() for page in tmp_path.glob("api*.html"))
    for name in ("envlab.registry", "ManagerEnv", "joint_pos_rel", "JointPositionActionCfg"):
        assert name in reference
    assert '<span class="whole">--num_episodes</span>' in (tmp_path / "evaluate.html").read_text()
    # Also the files that pages link to, such as sources: mkdocs does not warn of missing ones.
    pages = [page for page in tmp_path.rglob("*.html") if page.name != "404.html"]
    links = {
        page.parent / link
        for page in pages
        for link in re.findall(r'(?:href|src)="(?![a-z]+:|/)([^"#?]+)', page.read_text())
    }
    assert len(links) > 100
    assert [str(path.relative_to(tmp_path)) for path in links if not path.exists()] == []
