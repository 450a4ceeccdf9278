"""Populations on two nodes, one of which dies: their members continue where they were saved."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents import ADDRESS, agent, end, free_port
from tests.launcher import ROOT, TRAIN, Launch
from tests.populations.evolution.worker_pair import CONTINUOUS
from tests.populations.evolution.worker_pair import SMALL as EVOLVING
from tests.populations.population.test_learner import POPULATION, SMALL
from tests.trained import checkpoint_of, manifest_of, metrics_so_far, only_run

EVOLVE = ROOT / "scripts/reinforcement_learning/evolution"
ENDLESS = "--max_iterations=100000"
LEARNERS: list[list[str | Path]] = [
    [TRAIN, *SMALL, *POPULATION, "--distributed", ENDLESS],
    [
        *(EVOLVE / "train.py", CONTINUOUS, "--algorithm=sac", *EVOLVING, "--parallel=members"),
        *("agent.population.generation_iterations=3", "agent.save_interval=1"),
        *("agent.keep_checkpoints=0", ENDLESS),
    ],
]
"""Members of any library, and members that evolve."""


def frames_of(checkpoint: dict[str, Any]) -> list[dict[int, int]]:
    """Return by rank the steps of the members that only it has, by their places."""
    parts = [part["learner"]["members"] for part in checkpoint["ranks"]]
    return [{place: one["frames"] for place, one in members.items()} for members in parts]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(LEARNERS[0], id="of any library"),
        pytest.param(LEARNERS[1], id="that evolve", marks=pytest.mark.long),
    ],
)
def test_after_a_node_is_lost_every_member_goes_on_from_its_last_checkpoint(
    tmp_path: Path, words: list[str | Path]
):
    endpoint = f"localhost:{free_port()}"
    launches = []
    for number in range(2):  # the second, which is killed, must not have the rendezvous
        conf = f"--rdzv_conf=last_call_timeout=1,is_host={1 - number}"
        options = ["--max_restarts=3", conf]
        command = agent(number, endpoint, *words, nnodes="1:2", options=options)
        launches.append(Launch(command, tmp_path))
    try:
        launches[0].wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_4.pt")))
        run = only_run(tmp_path)
        first, second = frames_of(checkpoint_of(run, 4))
        assert {*first, *second} == {0, 1, 2, 3}
        assert len(first) == len(second) == 2
        launches[1].close()  # kills all that the node runs
        launches[0].wait_until(lambda: manifest_of(run).get("restarts"), deadline_s=150.0)
        (restart,) = manifest_of(run)["restarts"]
        at = restart["iteration"]
        launches[0].wait_until(lambda: metrics_so_far(run)[-1]["iteration"] > at + 1)
        launches[0].process.terminate()
    finally:
        end(launches[:1])
    assert (restart["world_size"], at >= 4) == (1, True)
    first, second = frames_of(checkpoint_of(run, at))
    (left,) = frames_of(checkpoint_of(run, at + 1))
    gained = {left[place] - frames for place, frames in {**first, **second}.items()}
    # Alone, a process divides its 8 environments among all members that evolve.
    assert gained == ({64} if words is LEARNERS[0] else {8 * 2})


@pytest.mark.long
def test_members_on_the_nodes_of_accelerate_go_on_when_what_is_left_is_launched(tmp_path: Path):
    """It has no elastic number of nodes: the job ends, and starts again under its ``--run_id``."""
    pytest.importorskip("accelerate", reason="needs accelerate: pip install -e '.[accelerate]'")
    port, launcher = free_port(), [sys.executable, "-m", "accelerate.commands.launch"]
    launch: list[str | Path] = [*launcher, "--config_file", EVOLVE / "accelerate.yaml"]
    both = ["--num_machines=2", "--num_processes=2", "--rdzv_backend=c10d"]
    both += [f"--main_process_ip={ADDRESS}", f"--main_process_port={port}"]
    words = [*LEARNERS[0], "--run_id=nodes"]
    launches = [Launch([*launch, *both, "--machine_rank=0", *words], tmp_path)]

    def listens() -> bool:
        with socket.socket() as client:
            return client.connect_ex((ADDRESS, port)) == 0

    try:
        launches[0].wait_until(listens)
        launches.append(Launch([*launch, *both, "--machine_rank=1", *words], tmp_path))
        launches[0].wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_4.pt")))
        run = only_run(tmp_path)
        launches[1].close()
        assert launches[0].wait() != 0
        done = manifest_of(run)["iteration"]
        launches.append(Launch([*launch, "--num_processes=1", *words], tmp_path))
        launches[2].wait_until(lambda: metrics_so_far(run)[-1]["iteration"] > done + 1)
        launches[2].process.terminate()
    finally:
        for each in launches:
            each.close()
    members = {**frames_of(checkpoint_of(run, done))[0], **frames_of(checkpoint_of(run, done))[1]}
    assert members == dict.fromkeys(range(4), done * 64)
    assert frames_of(checkpoint_of(run, done + 1)) == [dict.fromkeys(range(4), (done + 1) * 64)]
