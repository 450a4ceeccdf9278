"""Rollouts to repeat, from the records of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.run.records import METRICS, line_of
from envlab_navigation.ddppo.replay import read_rank_steps
from tests.refusals import check_refusals


def record(iteration: int, rank_steps: Any) -> bytes:
    counts = {"iteration": iteration, "frames": 10 * iteration, "wall_s": 1.0}
    return line_of({**counts, "details": {"rank_steps": rank_steps}})


def test_steps_are_read_by_iteration_also_of_a_run_that_was_killed(tmp_path: Path):
    lines = record(1, [4]) + record(2, [3]) + record(3, [4])[:-9]
    (tmp_path / METRICS).write_bytes(lines)
    assert read_rank_steps(str(tmp_path), DistributedContext()) == {1: [4], 2: [3]}
    assert read_rank_steps(None, DistributedContext()) is None


def test_a_run_that_cannot_be_repeated_is_named(tmp_path: Path):
    def read(steps: Any) -> None:
        (tmp_path / METRICS).write_bytes(record(1, steps))
        read_rank_steps(str(tmp_path), DistributedContext())

    missing = "there is no metrics.jsonl with the steps of ranks"
    ranks = "which has 2 ranks, but this run has 1"
    check_refusals(read, [([4, 3], ranks), (4, missing), (None, missing)])
