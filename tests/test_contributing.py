"""CONTRIBUTING.md's own task: its files are installed as a package, listed, stepped and trained."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT, TRAIN


def write_files(page: Path, folder: Path) -> list[str]:
    """Write the page's code blocks that begin with a comment with a file's name; return these."""
    names = []
    for block in re.findall(r"```\w+\n(.*?)```", page.read_text(), re.DOTALL):
        name = re.match(r"(?:# |<!-- )([\w./]+\.(?:py|xml|toml))", block)
        if name:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
            names.append(name[1])
    return names


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's package is installed, as pip installs it, with its entry point."""
    suite, site = tmp_path_factory.mktemp("my_suite"), tmp_path_factory.mktemp("site")
    names = write_files(ROOT / "CONTRIBUTING.md", suite)
    assert names == [
        "pyproject.toml",
        "my_suite/__init__.py",
        "my_suite/slide.xml",
        "my_suite/slide.py",
    ]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--target", str(site), str(suite)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (site / "my_suite/slide.xml").exists()
    return site


def run(site: Path, cwd: Path, *command: str) -> str:
    paths = os.pathsep.join((str(site), str(ROOT), str(ROOT / "source")))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_task_is_listed_beside_ours(site, tmp_path):
    listed = run(site, tmp_path, "-m", "envlab.cli", "list")
    assert "My-Slide-Direct-v0" in listed
    assert "Isaac-Cartpole-v0" in listed


def test_the_task_is_trained(site, tmp_path):
    flags = ["--task=My-Slide-Direct-v0", "--headless", "--device=cpu", "--max_iterations=2"]
    run(site, tmp_path, str(TRAIN), *flags)
    assert list(tmp_path.glob("logs/rsl_rl/*/*/checkpoints/model_2.pt"))
