"""A population on two nodes, one of which dies: its members continue where they were saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import agent, end, free_port
from tests.launcher import TRAIN, Launch
from tests.populations.population.test_learner import POPULATION, SMALL
from tests.trained import checkpoint_of, manifest_of, metrics_so_far, only_run


@pytest.mark.slow
def test_after_a_node_is_lost_every_member_goes_on_from_its_last_checkpoint(tmp_path: Path):
    endpoint = f"localhost:{free_port()}"
    options = ["--max_restarts=3", "--rdzv_conf=last_call_timeout=1"]
    words = [TRAIN, *SMALL, *POPULATION, "--distributed", "--max_iterations=100000"]
    commands = [
        agent(number, endpoint, *words, nnodes="1:2", options=options) for number in range(2)
    ]
    launches = [Launch(command, tmp_path) for command in commands]
    try:
        launches[0].wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_4.pt")))
        run = only_run(tmp_path)
        assert [sorted(part["learner"]["members"]) for part in checkpoint_of(run, 4)["ranks"]] == [
            [0, 1],
            [2, 3],
        ]
        launches[1].close()  # kills all that the node runs
        launches[0].wait_until(lambda: manifest_of(run).get("restarts"), deadline_s=150.0)
        (restart,) = manifest_of(run)["restarts"]
        at = restart["iteration"]
        launches[0].wait_until(lambda: metrics_so_far(run)[-1]["iteration"] > at + 1)
        launches[0].process.terminate()
    finally:
        end(launches[:1])
    assert (restart["world_size"], at >= 4) == (1, True)
    before, after = checkpoint_of(run, at), checkpoint_of(run, at + 1)
    assert len(before["ranks"]) == 2
    (left,) = after["ranks"]
    assert sorted(left["learner"]["members"]) == [0, 1, 2, 3]
    steps = {
        index: [
            part["learner"]["members"][index]["metrics"]["frames"]
            for saved in (before, after)
            for part in saved["ranks"]
            if index in part["learner"]["members"]
        ]
        for index in range(4)
    }
    assert steps == {index: [at * 64, (at + 1) * 64] for index in range(4)}
