"""skrl on JAX on one rank: it resumes bit for bit, with replay memory and noise, and refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from envlab.skrl.jax.arrays import CompiledMemory
from envlab.state import Share
from tests.skrl.jax.runs import FRAMEWORK, PPO, SAC, TASK
from tests.small_runs import check_same_end, train_in
from tests.trained import checkpoint_of, only_run

pytestmark = pytest.mark.slow

TD3 = [
    *(TASK, *FRAMEWORK, "--algorithm=td3", "--num_envs=4", "agent.save_interval=1"),
    *("agent.num_steps_per_env=4", "agent.agent.batch_size=8", "agent.memory.memory_size=6"),
    "agent.agent.exploration_noise=OrnsteinUhlenbeckNoise",
    "+agent.agent.exploration_noise_kwargs={theta:0.1,sigma:0.5,base_scale:0.5}",
    "agent.agent.smooth_regularization_noise=GaussianNoise",
    "+agent.agent.smooth_regularization_noise_kwargs={mean:0.0,std:0.1}",
]


@pytest.mark.parametrize(
    "flags", [pytest.param(SAC, marks=pytest.mark.long), TD3], ids=["sac", "td3"]
)
def test_a_resumed_run_ends_bit_identical_and_other_networks_are_refused(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
):
    assert train_in("skrl", tmp_path, *flags, "--max_iterations=2") == 0
    whole = only_run(tmp_path)
    again = tmp_path / "again"
    resume = ["--max_iterations=2", "--resume", f"--checkpoint={whole}/checkpoints/model_1.pt"]
    assert train_in("skrl", again, *flags, *resume) == 0
    check_same_end(only_run(again), whole, resumed_at=1, iteration=2)
    learner = checkpoint_of(only_run(again), 2)["ranks"][0]["learner"]
    assert "observations" in learner["memories"]["memory"]["tensors"]
    assert bool(learner["noises"]) == (flags is TD3)
    capsys.readouterr()
    network = "agent.models.policy.network=[{name:net,input:OBSERVATIONS,layers:[7]}]"
    assert train_in("skrl", again, *flags, *resume, network) == 2
    error = capsys.readouterr().err
    assert "does not fit the configured agent.policy" in error
    assert "(4, 32) instead of (4, 7)" in error or "in one of them only" in error


REFUSED = {
    "--grad_sync is library, but skrl's own way": "--grad_sync=library",
    "TRPO was requested on JAX, but only PPO, A2C": "--algorithm=trpo",
    "agent.agent.mini_batches is 1000, but there are only": "agent.agent.mini_batches=1000",
    "clip_actions is true, but the task's actions": "agent.models.policy.clip_actions=true",
    "'StepLR', but on JAX it must be null": "agent.agent.learning_rate_scheduler=StepLR",
    "which skrl has on PyTorch only": "agent.models.policy={class:MultivariateGaussianMixin}",
}


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for message, word in REFUSED.items():
        arguments = PPO[:4] if word == "--algorithm=trpo" else PPO
        assert train_in("skrl", tmp_path, *arguments, "--max_iterations=1", word) == 2
        errors = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
        assert len(errors) == 1, word
        assert message in errors[0]
    assert list(tmp_path.iterdir()) == []


def test_a_memory_is_dealt_by_environment_and_keeps_the_newest_steps():
    def memory(size: int, num_envs: int) -> CompiledMemory:
        made = CompiledMemory(memory_size=size, num_envs=num_envs)
        made.create_tensor("actions", size=1, dtype=np.float32)
        return made

    saved = memory(3, 2)
    for step in range(4):
        saved.add_samples(actions=np.array([[step], [10.0 + step]], dtype=np.float32))
    one = memory(4, 1)
    one.set_state(one.deal(*Share(1, 1, 2).within([saved.state()])))
    assert (one.memory_index, one.filled) == (3, False)
    assert np.array(one.tensors["actions"])[:, 0, 0].tolist() == [11.0, 12.0, 13.0, 0.0]
