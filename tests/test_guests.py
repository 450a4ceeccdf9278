"""The core without its guests: it names none of them, and runs without their folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envlab.libraries import CORE, libraries
from tests.launcher import ROOT

CONTENT = {"envlab_assets", "envlab_policies", "envlab_tasks"}
GUESTS = sorted({path.name for path in (ROOT / "source").glob("envlab_*")} - CONTENT)
ROOMS = [ROOT / "tests" / guest.removeprefix("envlab_") for guest in GUESTS]
"""Folders of guests' tests."""
TOGETHER = {ROOT / "tests/peers", ROOT / "tests/golden"}
"""Tests that apply to all ways of training, guests' included."""
SMALL = ["--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=32"]
TRAIN = """
import sys
from envlab.cli import main
for library, override in (
    ("rsl_rl", "agent.num_steps_per_env=8"),
    ("rl_games", "agent.params.config.minibatch_size=512"),
    ("skrl", "agent.agent.rollouts=8"),
    ("fast_sac", "agent.num_steps_per_env=8"),
):
    words = [*sys.argv[1:], "--max_iterations=1", override]
    assert main(["train", library, *words]) == 0, library
    assert main(["play", library, *sys.argv[1:], "--num_episodes=2", "--no_export"]) == 0, library
assert main(["compare", "logs"]) == 0
assert main(["list"]) == 0
assert main(["--help"]) == 0
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which guests can neither be found nor imported."""
    root = tmp_path_factory.mktemp("alone")
    left_out = {*ROOMS, *(ROOT / "source" / guest for guest in GUESTS), *TOGETHER}
    left_out.add(ROOT / "tests/mistakes/guests")

    def unwanted(place: str, names: list[str]) -> set[str]:
        return {n for n in names if n == "__pycache__" or Path(place, n) in left_out}

    for name in ("docs", "envlab", "scripts", "source", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    for name in ("pyproject.toml", "constraints.txt", "envlab.sh"):
        shutil.copy(ROOT / name, root)
    # An editable install would still find the folders that this copy lacks.
    blocked = "".join(f"sys.modules[{guest!r}] = None\n" for guest in GUESTS)
    (root / "sitecustomize.py").write_text(f"import sys\n{blocked}")
    author = ["-c", "user.name=envlab", "-c", "user.email=envlab@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "The core alone"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    return root


def run_alone(root: Path, words: list[str], folder: Path, timeout: float) -> str:
    """Run Python on the copy; return its output."""
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'source'}"}
    piped = {"capture_output": True, "text": True, "timeout": timeout}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, **piped)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-6000:]
    return output


def test_the_core_names_no_guest():
    ways = set(libraries()) - {library.name for library in CORE}
    names = re.compile(rf"\b({'|'.join([*GUESTS, *sorted(ways)])})\b")
    folders = [ROOT / "envlab", *(ROOT / "source" / content for content in CONTENT), ROOT / "tests"]
    files = {path for folder in folders for path in folder.rglob("*.py")} - {Path(__file__)}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if not {*ROOMS, *TOGETHER} & {*path.parents}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if names.search(line)
    ]
    assert not found


@pytest.mark.long
@pytest.mark.slow
def test_the_core_trains_plays_and_compares_without_its_guests(alone: Path, tmp_path: Path):
    output = run_alone(alone, ["-c", TRAIN, *SMALL], tmp_path, 240.0)
    assert not any(guest in output for guest in GUESTS)
    assert "Isaac-Cartpole-v0" in output
    assert "Nav-" not in output


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_the_tests_of_the_core_pass_without_its_guests(alone: Path):
    words = ["-m", "pytest", "tests", "-q", "--maxfail=5"]
    words += ["-p", "no:cacheprovider", "-m", "not slow"]
    of_the_whole = "ci docs docker envlab_sh guests contributing".split()
    words += [f"--ignore=tests/test_{name}.py" for name in of_the_whole]
    run_alone(alone, [*words, "--ignore=tests/scripts"], alone, 2300.0)
