"""play.py on briefly trained policies of one agent and of two, continuous and discrete."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.cli import play
from tests.skrl.torch.worker import DQN, MAPPO, PPO
from tests.small_runs import train_in
from tests.trained import check_exported, checkpoint_of, only_run

MULTI = ["--task=Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0", *DQN[1:5]]
KINDS = {"mappo": MAPPO, "dqn": [*DQN, "--algorithm=dqn"], "multi_categorical": MULTI}


def play_after(folder: Path, flags: list[str], capsys: Any) -> Path:
    """Return a run of one iteration, which was played and exported."""
    assert train_in("skrl", folder, *flags, "--max_iterations=1") == 0
    run = only_run(folder)
    kept = [word for word in flags if word.startswith(("--task", "--algorithm", "--device"))]
    more = ["--num_envs=4", "--num_episodes=4", f"--checkpoint={run}/checkpoints/model_1.pt"]
    capsys.readouterr()
    with contextlib.chdir(folder):
        assert play("skrl", [*kept, *more]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^Mean return -?\d+\.\d+ \(std \d+\.\d+\) over 4 episodes$", printed, re.M)
    return run


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] if "multi" in kind else []) for kind in KINDS],
)
def test_a_policy_is_played_and_exported(kind: str, tmp_path: Path, capsys: Any):
    run = play_after(tmp_path, KINDS[kind], capsys)
    files = {str(path.relative_to(run / "exported")) for path in run.glob("exported/**/policy.*")}
    names = ["cart/", "pendulum/"] if kind == "mappo" else [""]
    assert files == {f"{name}policy.{kind}" for name in names for kind in ("pt", "onnx")}


def test_the_exported_policy_holds_the_scaler(tmp_path: Path, capsys: Any):
    run = play_after(tmp_path, PPO, capsys)
    modules = checkpoint_of(run, 1)["model"]["modules"]["agent"]
    scaler, policy = modules["observation_preprocessor"], modules["policy"]
    obs = 3.0 * torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    deviation = scaler["running_variance"].float().sqrt() + 1e-8
    hidden = ((obs - scaler["running_mean"].float()) / deviation).clamp(-5.0, 5.0)
    for name in ("net_container.0", "net_container.2"):
        hidden = torch.nn.functional.elu(
            hidden @ policy[f"{name}.weight"].T + policy[f"{name}.bias"]
        )
    expected = hidden @ policy["policy_layer.weight"].T + policy["policy_layer.bias"]
    check_exported(run, obs, expected)
