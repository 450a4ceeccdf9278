"""DD-PPO on real ranks: gradients of unequal batches, stragglers and their replay, stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab_navigation.ddppo.objective import Gradients
from tests.launcher import run, torchrun
from tests.learner_contract import digests
from tests.navigation.ddppo.test_stages import EXPERIMENT
from tests.navigation.ddppo.unequal import batch_of, concatenated, make_objective, share_of, terms
from tests.navigation.ddppo.worker_ranks import EXPERIMENT_FILE, NUM_STEPS, WAITS_AT
from tests.trained import metrics_of, only_run

WORKER = Path(__file__).with_name("worker_ranks.py")
NUM_ENVS = 8
SMALL = [
    *("--task=Isaac-Cartpole-v0", "--headless", "--device=cpu", f"--num_envs={NUM_ENVS}"),
    *("--distributed", "--max_iterations=4", "agent.audit_interval=1"),
    *(f"agent.num_steps_per_env={NUM_STEPS}", "agent.algorithm.num_mini_batches=2"),
    *("agent.algorithm.num_learning_epochs=2", "agent.model.hidden_dim=16"),
]
LATE = WAITS_AT + 1
"""Steps of the straggler in the second rollout."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("two")
    (folder / EXPERIMENT_FILE).write_text(EXPERIMENT)
    code, output = run(torchrun(2, WORKER, folder, *SMALL), folder)
    assert code == 0, output
    return folder, [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


def of_one_process(num_ranks: int) -> dict[str, torch.Tensor]:
    objective = make_objective()
    found = Gradients(objective, DistributedContext())
    found.compute(concatenated(num_ranks), 0, terms(objective), stage=0, share=1.0)
    return {name: values.grad for name, values in objective.named_parameters()}


def largest_error(expected: dict[str, torch.Tensor], actual: dict[str, torch.Tensor]) -> float:
    assert expected.keys() == actual.keys()
    return max(float((actual[name] - values).abs().max()) for name, values in expected.items())


def test_gradients_of_8_unequal_batches_are_those_of_one_process():
    """After DDP's mean over the 8 ranks."""
    mean: dict[str, torch.Tensor] = {}
    for rank in range(8):
        objective = make_objective()
        found = Gradients(objective, DistributedContext())
        found.compute(batch_of(rank), 0, terms(objective), stage=0, share=share_of(rank, 8))
        for name, values in objective.named_parameters():
            mean[name] = mean.get(name, 0.0) + values.grad / 8
    assert largest_error(of_one_process(8), mean) < 1e-6


def test_ddp_sums_unequal_batches_as_one_process_would(two):
    expected = of_one_process(2)
    for rank in two[1]:
        assert largest_error(expected, rank["gradients"]) < 1e-6


def test_a_straggler_is_preempted_and_frames_are_counted_exactly(two):
    """The audit, which follows each iteration here, holds all the while."""
    records = metrics_of(only_run(two[0] / "cut"))
    steps = [record["details"]["rank_steps"] for record in records]
    whole = [NUM_STEPS, NUM_STEPS]
    assert steps == [whole, [NUM_STEPS, LATE], whole, whole]
    counts = [NUM_ENVS * sum(one) for one in steps]
    assert [record["frames"] for record in records] == [sum(counts[:n]) for n in range(1, 5)]
    stages = two[1][0]["cut"]["pipeline"]["stages"]
    assert [one["steps"] for one in stages] == [sum(counts)]


def test_a_run_is_repeated_by_the_lengths_of_its_rollouts(two):
    assert_alike(two[1], "cut", "replayed")


def test_ranks_go_through_stages_together(two):
    """Losses of the first stage have their own networks; rank 0 alone asks for the last end."""
    records = metrics_of(only_run(two[0] / "staged"))
    assert [record["details"]["stage"] for record in records] == [0, 0, 1, 2]
    assert [record["frames"] for record in records] == [64, 128, 192, 256]
    learned = {name.partition("/")[0] for name in records[0]["losses"]}
    assert learned == {"imitation", "inverse", "cpc", "grad_norm"}
    first, second = (rank["staged"]["pipeline"] for rank in two[1])
    assert first == second
    assert first["stages"][-1]["stopped_early"]


def test_a_resume_in_mid_stage_is_exact_on_two_ranks(two):
    records = metrics_of(only_run(two[0] / "resumed"))
    assert [record["frames"] for record in records] == [128, 192, 256]
    assert_alike(two[1], "staged", "resumed")


def assert_alike(ranks: list[dict[str, Any]], one: str, other: str) -> None:
    """Compare the final states of two trainings bit by bit, and ranks with each other."""
    found = [digests(rank[kind]) for rank in ranks for kind in (one, other)]
    assert all(values == found[0] for values in found)
