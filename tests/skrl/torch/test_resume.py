"""skrl on one process: a resumed run is the unbroken one, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skrl.torch.worker import DQN, MAPPO, PPO, SAC
from tests.small_runs import check_resumes_exactly, train_in
from tests.trained import only_run

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_bit_identical(kind: str, tmp_path: Path):
    check_resumes_exactly("skrl", tmp_path, *KINDS[kind])


def test_a_checkpoint_of_other_networks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert train_in("skrl", tmp_path, *PPO, "--max_iterations=1") == 0
    path = only_run(tmp_path) / "checkpoints/model_1.pt"
    resume = ["--max_iterations=2", "--resume", f"--checkpoint={path}"]
    assert train_in("skrl", tmp_path, *PPO, "agent.models.separate=true", *resume) == 2
    assert "does not fit the configured agent" in capsys.readouterr().err
