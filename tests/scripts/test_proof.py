"""The checks that precede any claim about a machine with a GPU, at a small size."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import ROOT

TASK = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--blocks=1", "--block_s=0.01"]


def test_throughput_measures_several_sizes(tmp_path: Path):
    main = runpy.run_path(str(ROOT / "scripts/benchmarks/throughput.py"))["main"]
    assert main([*TASK, "--num_envs", "2", "4", f"--json={tmp_path / 'figures.json'}"]) == 0
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [row["num_envs"] for row in rows] == [2, 4]


@pytest.mark.long
@pytest.mark.parametrize(("script", "steps"), [("prove", 11), ("two", 10)])
def test_every_step_of_a_proof_walks_on_a_cpu(script: str, steps: int, tmp_path: Path):
    done = subprocess.run(
        [ROOT / f"scripts/gpu/{script}.sh", "--cpu", tmp_path],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "report.md").read_text()
    assert report.count(": passed, ") == steps
