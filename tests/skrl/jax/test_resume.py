"""Resuming skrl on JAX on one rank: bit for bit, with replay memory and noise."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from tests.rsl_rl.test_resume import digests
from tests.skrl.jax.runs import FRAMEWORK, SAC, TASK, train_in
from tests.trained import checkpoint_of, only_run

pytestmark = pytest.mark.slow

TD3 = [
    TASK,
    *FRAMEWORK,
    "--algorithm=td3",
    "--num_envs=4",
    "agent.num_steps_per_env=4",
    "agent.save_interval=1",
    "agent.agent.batch_size=8",
    "agent.memory.memory_size=12",
    "agent.agent.exploration_noise=OrnsteinUhlenbeckNoise",
    "+agent.agent.exploration_noise_kwargs={theta:0.1,sigma:0.5,base_scale:0.5}",
    "agent.agent.smooth_regularization_noise=GaussianNoise",
    "+agent.agent.smooth_regularization_noise_kwargs={mean:0.0,std:0.1}",
]


@pytest.mark.parametrize(
    ("flags", "middle", "end"),
    [pytest.param(SAC, 1, 2, marks=pytest.mark.long), (TD3, 2, 4)],
    ids=["sac", "td3"],
)
def test_a_resumed_run_ends_bit_identical(tmp_path: Path, flags: list[str], middle: int, end: int):
    assert train_in(tmp_path, *flags, f"--max_iterations={end}") == 0
    whole = only_run(tmp_path)
    path = f"--checkpoint={whole}/checkpoints/model_{middle}.pt"
    again = tmp_path / "again"
    again.mkdir()
    assert train_in(again, *flags, f"--max_iterations={end}", "--resume", path) == 0
    resumed = checkpoint_of(only_run(again), end)
    assert digests(resumed) == digests(checkpoint_of(whole, end))
    learner = resumed["ranks"][0]["learner"]
    assert "observations" in learner["memories"]["memory"]["tensors"]
    assert bool(learner["noise"]) == (flags is TD3)


def test_a_checkpoint_of_other_networks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert train_in(tmp_path, *TD3, "--max_iterations=1") == 0
    path = f"--checkpoint={only_run(tmp_path)}/checkpoints/model_1.pt"
    network = "agent.models.policy.network=[{name:net,input:OBSERVATIONS,layers:[7]}]"
    flags = [*TD3, "--max_iterations=2", "--resume", path, network]
    assert train_in(tmp_path, *flags) == 2
    error = capsys.readouterr().err
    assert "does not fit the configured agent.policy" in error
    assert "(4, 32) instead of (4, 7)" in error or "in one of them only" in error
