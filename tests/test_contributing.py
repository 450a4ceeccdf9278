"""CONTRIBUTING.md's own task and library: installed as packages, listed, trained and played."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.launcher import ROOT, TRAIN, torchrun


def write_files(section: str, folder: Path) -> list[str]:
    """Write a section's code blocks that begin with a comment with a file's name; return these."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    text = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    names = []
    for block in re.findall(r"```\w+\n(.*?)```", text, re.DOTALL):
        name = re.match(r"(?:# |<!-- )([\w./]+\.(?:py|xml|toml))", block)
        if name:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
            names.append(name[1])
    return names


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's two packages are installed, as pip installs them, with entry points."""
    suite, library = tmp_path_factory.mktemp("my_suite"), tmp_path_factory.mktemp("my_library")
    assert write_files("Add a task", suite) == [
        "pyproject.toml",
        "my_suite/__init__.py",
        "my_suite/slide.xml",
        "my_suite/slide.py",
    ]
    assert write_files("Add a library", library) == [
        "pyproject.toml",
        "my_library/__init__.py",
        "my_library/cfg.py",
        "my_library/learner.py",
    ]
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--no-build-isolation", "--target", str(site), str(suite), str(library)]
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


def test_the_library_trains_resumes_and_plays(site, tmp_path):
    task = "--task=Isaac-Cartpole-v0"
    command = ["-m", "envlab.cli", "train", "my_library", task, "--device=cpu", "--num_envs=16"]
    assert "a policy gradient on one linear layer" in run(site, tmp_path, "-m", "envlab.cli")
    run(site, tmp_path, *command, "--max_iterations=4", "agent.save_interval=2")
    run(site, tmp_path, *command, "--max_iterations=4", "--resume", "--checkpoint=model_2.pt")
    found = sorted(tmp_path.glob("logs/my_library/*/*/checkpoints/model_4.pt"))
    whole, resumed = (torch.load(path, weights_only=True) for path in found)
    assert torch.equal(whole["model"]["policy"]["weight"], resumed["model"]["policy"]["weight"])
    played = run(site, tmp_path, "-m", "envlab.cli", "play", "my_library", task, "--num_envs=4")
    assert "Mean return" in played


def test_the_library_trains_on_two_ranks_that_stay_equal(site, tmp_path):
    launcher = torchrun(2, "-m", "envlab.cli", "train", "my_library")[1:]
    flags = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=16", "--distributed"]
    audits = "agent.audit_interval=1"
    run(site, tmp_path, *map(str, launcher), *flags, audits, "--max_iterations=2")
    (manifest,) = tmp_path.glob("logs/my_library/isaac_cartpole/*/run.json")
    assert json.loads(manifest.read_text())["status"] == "finished"
