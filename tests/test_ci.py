""".ci/run tests as on a bare machine, then with the tools. Here, a stand-in notes its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.launcher import ROOT
from tests.system_tools import REQUIRED, TOOLS

NAMES = {name for tool in TOOLS.values() for name in tool.names}
NOTES = f"""\
#!/usr/bin/env bash
# Notes its words, whether tools are required, and which programs it finds; fails if told to.
found=
for name in git {" ".join(sorted(NAMES))}; do
    if path=$(command -v $name); then found+=" $(readlink -f "$path")"; fi
done
echo "$*|${{{REQUIRED}:-}}|$found" >>calls
[ ! -e "fails:$*" ] || exit 5
"""
FAST = "-m tools -n 3 --dist loadfile --max-worker-restart=0"


class Call(NamedTuple):
    """A call of envlab.sh: its words, whether tools are required, and programs that it finds."""

    words: str
    are_required: bool
    programs: set[str]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of .ci/run alone, on a machine whose git and tools are stand-ins."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/system_tools.txt", tmp_path / "tests")
    write_program(tmp_path / "envlab.sh", NOTES)
    for name in ("git", "apt-get", *NAMES):
        write_program(tmp_path / "programs" / name, "#!/bin/sh\n")
    write_program(tmp_path / "programs/id", "#!/bin/sh\necho 0\n")
    write_program(tmp_path / ".venv-sky/bin/sky", "#!/bin/sh\n")
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def ci(checkout: Path) -> Callable[..., tuple[int, list[Call]]]:
    """Return a function that runs .ci/run, and returns its exit code and what it called."""

    def run(*words: str, **variables: str) -> tuple[int, list[Call]]:
        path = f"{checkout / 'programs'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, **variables}
        environment.pop(REQUIRED, None)
        done = subprocess.run([".ci/run", *words], cwd=checkout, env=environment, timeout=60)
        calls = []
        for line in (checkout / "calls").read_text().splitlines():
            given, required, programs = line.split("|")
            calls.append(Call(given, required == "required", set(programs.split())))
        return done.returncode, calls

    return run


def test_all_tests_run_without_the_tools_and_those_that_need_them_with_them(ci, checkout: Path):
    code, (bare, full) = ci()
    assert code == 0
    git, *tools = (str(checkout / "programs" / name) for name in ("git", *NAMES))
    assert bare == ("test", False, {git})
    assert full == (f"test {FAST}", True, {git, *tools})


def test_it_fails_where_either_call_does_and_makes_both(ci, checkout: Path):
    for words in ("test", f"test {FAST}"):
        fails = checkout / f"fails:{words}"
        fails.touch()
        assert ci()[0] == 1
        fails.unlink()
    assert len((checkout / "calls").read_text().splitlines()) == 2 * 2


@pytest.mark.long
def test_long_tests_run_in_both_calls(ci, checkout: Path):
    for words, variable in ((["--all"], "0"), ([], "1")):
        (checkout / "calls").unlink(missing_ok=True)
        code, calls = ci(*words, CI_ALL=variable)
        assert code == 0
        assert [call.words for call in calls] == ["test --all", f"test --all {FAST}"]


@pytest.mark.long
def test_tools_are_not_required_of_who_cannot_install_them(ci, checkout: Path):
    write_program(checkout / "programs/id", "#!/bin/sh\necho 1000\n")
    code, calls = ci()
    assert code == 0
    assert [call.are_required for call in calls] == [False, False]


@pytest.mark.tools("shellcheck")
def test_shellcheck_finds_nothing():
    scripts = [ROOT / ".ci/run", ROOT / "envlab.sh"]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
