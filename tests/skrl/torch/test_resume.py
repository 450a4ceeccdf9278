"""skrl on one process: a resumed run is the unbroken one, bit for bit."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from envlab.training.launch import train
from tests.learner_contract import timeless_digests
from tests.run.test_directory import timeless
from tests.skrl.torch.worker import DQN, MAPPO, PPO, SAC
from tests.trained import checkpoint_of, only_run

KINDS = {
    "step": [
        *PPO,
        "agent.agent.learning_rate_scheduler=StepLR",
        "++agent.agent.learning_rate_scheduler_kwargs.step_size=3",
    ],
    "mappo": MAPPO,
    "dqn": [*DQN, "--algorithm=dqn"],
    # Three updates per two delays: the counter matters.
    "td3": [*SAC, "--algorithm=td3", "agent.agent.policy_delay=3"],
}
"""AMP on two ranks is in ``test_learner.py``; PPO, IPPO and SAC in ``test_old_runs.py``."""


def train_in(folder: Path, *arguments: str) -> int:
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        return train("skrl", arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_bit_identical(kind: str, tmp_path: Path):
    assert train_in(tmp_path / "whole", *KINDS[kind], "--max_iterations=4") == 0
    whole = only_run(tmp_path / "whole")
    resume = ["--resume", f"--checkpoint={whole}/checkpoints/model_2.pt"]
    assert train_in(tmp_path / "resumed", *KINDS[kind], "--max_iterations=4", *resume) == 0
    resumed = only_run(tmp_path / "resumed")
    assert timeless_digests(checkpoint_of(resumed, 4)) == timeless_digests(checkpoint_of(whole, 4))
    assert timeless(resumed) == timeless(whole)[2:]


def test_a_checkpoint_of_another_algorithm_or_other_networks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert train_in(tmp_path, *PPO, "--max_iterations=1") == 0
    path = only_run(tmp_path) / "checkpoints/model_1.pt"
    resume = ["--max_iterations=2", "--resume", f"--checkpoint={path}"]
    assert train_in(tmp_path, *SAC, *resume) == 2
    assert "is of the algorithm 'ppo', but 'sac' was asked for" in capsys.readouterr().err
    assert train_in(tmp_path, *PPO, "agent.models.separate=true", *resume) == 2
    assert "does not fit the configured agent" in capsys.readouterr().err
