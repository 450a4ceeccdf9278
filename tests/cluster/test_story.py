"""A run of Isaac-Cartpole-v0 on one host, from its launch to its end."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import Cluster, why_no_servers
from tests.launcher import ROOT
from tests.trained import manifest_of, metrics_of, only_run

TRAIN = [
    *("rsl_rl", "--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--num_envs=16"),
    *("env.sim.num_threads=1", "agent.save_interval=2", "agent.algorithm.num_learning_epochs=1"),
    "agent.algorithm.num_mini_batches=1",
]


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    """One ssh server on the loopback."""
    reason = why_no_servers()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path, 1)
    yield cluster
    cluster.close()


def test_two_processes_on_one_host_to_the_end(single: Cluster):
    words = ["--fetch", "--nproc_per_node=2", *TRAIN, "--max_iterations=2"]
    # Sent from here, and brought back to where the command runs: a separate clone.
    launch = single.start("launch", *words, cwd=clone(single.folder))
    assert launch.wait() == 0, launch.output
    run = only_run(single.folder / "clone")
    manifest = manifest_of(run)
    assert (manifest["status"], manifest["world"]["size"]) == ("finished", 2)
    assert [record["iteration"] for record in metrics_of(run)] == [1, 2]
    assert (run / "checkpoints/model_2.pt").is_file()
    assert re.search(r"^host0 \| \[rank 0\] Writing to ", launch.output, re.MULTILINE)
    assert f"Run directory: {run.relative_to(single.folder / 'clone')}" in launch.output
    status = single.start("status")
    assert status.wait() == 0
    assert "finished: iteration 2, " in status.output
    assert single.living() == {}


def clone(folder: Path) -> Path:
    """Return a private copy of this working tree, as git has it."""
    target = folder / "clone"
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(words, cwd=ROOT, text=True).split("\0"):
        if name.startswith(("envlab/", "source/", "scripts/", ".gitignore")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)
    return target
