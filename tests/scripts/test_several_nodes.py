"""Training on several nodes by the commands of docs/distribute.md."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.agents import agent, end, free_port
from tests.launcher import TRAIN, Launch
from tests.trained import manifest_of, metrics_of, metrics_so_far, only_run

FLAGS = [
    *("--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", "--distributed"),
    *("--num_envs=16", "env.sim.num_threads=1"),
]


def world_sizes(run: Path) -> list[int]:
    """Return how many ranks a run had, initially and after each restart."""
    manifest = manifest_of(run)
    return [1, *(restart["world_size"] for restart in manifest.get("restarts", []))]


@pytest.mark.long
def test_a_node_that_joins_later_trains_on_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Agents of torch 2.13 that share a store with their workers do not show newcomers where it is.
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    endpoint = f"localhost:{free_port()}"
    options = ["--max_restarts=3", "--rdzv_conf=last_call_timeout=1"]
    words = [TRAIN, *FLAGS, "--max_iterations=100000", "agent.save_interval=2"]
    commands = [
        agent(number, endpoint, *words, nnodes="1:2", options=options) for number in range(2)
    ]
    launches = [Launch(commands[0], tmp_path)]
    try:
        launches[0].wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_2.pt")))
        launches.append(Launch(commands[1], tmp_path))
        run = only_run(tmp_path)
        # If the newcomer is late for the first restart, another follows.
        launches[0].wait_until(lambda: world_sizes(run)[-1] == 2, deadline_s=150.0)
        restart = manifest_of(run)["restarts"][-1]
        at = restart["iteration"]
        launches[0].wait_until(lambda: metrics_so_far(run)[-1]["iteration"] > at)
        for launch in launches:
            launch.process.terminate()
    finally:
        end(launches)
    # Rank 0 alone writes, and the other node says where.
    said = f"Rank 0, on {socket.gethostname()}, logs, and writes the run to {run}"
    assert any(said in launch.output for launch in launches)
    assert at >= 2
    assert only_run(tmp_path) == run
    # One process of 16 environments, then two of 8: none is dropped, and none is new.
    frames = {record["iteration"]: record["frames"] for record in metrics_of(run)}
    assert frames[at + 1] - frames[at] == frames[2] - frames[1]
