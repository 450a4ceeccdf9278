"""Run directories that an earlier envlab wrote still resume, play and compare.

``tests/data/old_runs`` holds Cartpole runs of four iterations on 8 environments per process, one
per library (rsl_rl's on two processes), as commit 82b0d79 wrote them: without event files, and
with the checkpoints of iterations 2 and 4. A run that is resumed at 2 must end as the old one did.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.cli import main
from envlab.distributed.audit import flatten
from tests.launcher import ROOT, TRAIN, run, torchrun

DATA = ROOT / "tests/data/old_runs"
TASK = "--task=Isaac-Cartpole-v0"
# By the words that choose a library: the folder, and the mean return that play.py printed then.
RUNS = {
    "rsl_rl": ("rsl_rl/cartpole/2026-11-22_01-24-54", -3.846),
    "rl_games": ("rl_games/cartpole/2026-11-22_01-25-03", -1.307),
    "skrl": ("skrl/cartpole/2026-11-22_01-25-09_ppo_torch", -2.474),
    "skrl --ml_framework=jax": ("skrl/cartpole/2026-11-22_01-25-18_ppo_jax", -1.646),
}


@pytest.fixture(params=RUNS)
def library(request: pytest.FixtureRequest) -> str:
    if "jax" in request.param:
        pytest.importorskip("jax")
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all the old runs in its ``logs``, with the links that git does not keep."""
    shutil.copytree(DATA, tmp_path / "logs")
    for path, _ in RUNS.values():
        checkpoints = tmp_path / "logs" / path / "checkpoints"
        os.link(checkpoints / "model_4.pt", checkpoints / "latest.pt")
    return tmp_path


def final_model(run_directory: Path) -> dict[str, Any]:
    """Return the numbers of the learner in the checkpoint of iteration 4, by name."""
    path = run_directory / "checkpoints/model_4.pt"
    return flatten(torch.load(path, weights_only=True)["model"])


def test_an_old_run_resumes_and_ends_as_it_did(library: str, folder: Path):
    path, _ = RUNS[library]
    old = folder / "logs" / path
    flags = ["--device=cpu", "--max_iterations=4", "--resume", "--run_name=resumed"]
    flags += [TASK, f"--checkpoint={old}/checkpoints/model_2.pt"]
    if library == "rsl_rl":
        code, output = run(torchrun(2, TRAIN, *flags, "--distributed"), folder)
        assert "Resuming exactly" in output, output
    else:
        with contextlib.chdir(folder):
            code = main(["train", *library.split(), *flags])
    assert code == 0
    (manifest,) = folder.glob("logs/*/*/*resumed*/run.json")
    before, after = final_model(old), final_model(manifest.parent)
    for key, value in before.items():
        if isinstance(value, torch.Tensor):  # close, as another processor rounds otherwise
            torch.testing.assert_close(after[key], value, rtol=1e-3, atol=1e-4, msg=key)
    old_frames, frames = (
        json.loads(file.read_text())["frames"] for file in (old / "run.json", manifest)
    )
    assert frames == old_frames


def test_an_old_run_plays_as_it_did(
    library: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    # It was played in the states that its seed trains in.
    monkeypatch.setattr("envlab.train.play.evaluation_seed", lambda seed: seed)
    path, expected = RUNS[library]
    flags = [TASK, "--device=cpu", "--num_envs=4", "--seed=3"]
    flags += [f"--checkpoint=logs/{path}/checkpoints/model_4.pt", "--json=played.json"]
    with contextlib.chdir(folder):
        assert main(["play", *library.split(), *flags]) == 0
    output = capsys.readouterr().out
    (mean_return,) = re.findall(r"^Mean return (\S+)", output, re.MULTILINE)
    assert float(mean_return) == pytest.approx(expected, rel=0.02)
    played = json.loads((folder / "played.json").read_text())
    assert played["return"] == pytest.approx(float(mean_return), abs=1e-3)
    assert (folder / "logs" / path / "exported/policy.pt").exists()


def test_old_runs_compare(folder: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("scipy")
    with contextlib.chdir(folder):
        assert main(["compare", "logs", "--format=json", "--no_plot"]) == 0
    rows = json.loads(capsys.readouterr().out)["groups"]
    assert {row["label"]: row["frames"] for row in rows} == {
        "rl_games, 1 process, 8 environments": 512,
        "rsl_rl, 2 processes, 16 environments": 1024,
        "skrl ppo jax, 1 process, 8 environments": 512,
        "skrl ppo torch, 1 process, 8 environments": 512,
    }
