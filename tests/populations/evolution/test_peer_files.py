"""Configuration files in the style of AgileRL's users, each of a different kind, all train."""

from __future__ import annotations

import functools
import json
import math
import operator
from pathlib import Path
from typing import Any

import pytest

from envlab.config import load_yaml
from envlab.training.launch import train
from tests.trained import manifest_of, metrics_of, only_run

FILES = Path(__file__).parent / "peer_files"
KINDS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "dqn_of_0_1": ("gym:CartPole-v1", 240, 2, {"agent.class": "DDQN"}),
    "dqn_multi_frequency": (
        *("gym:Acrobot-v1", 480, 2),
        {"agent.class": "DDQN", "population.size": 4},
    ),
    "ddpg_simba": (
        *("gym:HalfCheetah-v4", 100, 2),
        {"agent.exploration_noise": "GaussianNoise", "population.size": 1},
    ),
    "td3_of_2_0": (
        *("gym:LunarLanderContinuous-v3", 300, 3),
        {"agent.class": "TD3", "agent.policy_delay": 3, "network.hidden_dims": [20, 24, 16]},
    ),
    "ppo_continuous": (
        *("gym:InvertedPendulum-v4", 320, 2),
        {"agent.class": "PPO", "agent.rollouts": 20, "network.activation": "tanh"},
    ),
    "matd3": (
        *("gym:envlab_populations.crew:PettingZoo-v0", 200, 2),
        {"agent.class": "MATD3", "agent.policy_delay": 2},
    ),
}
"""By file: the task, frames of all members, generations, and a value in ``params/agent.yaml``."""


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_file_trains_as_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if name == "matd3":
        pytest.importorskip("mpe2", reason="needs mpe2: pip install -e '.[pettingzoo]'")
    task, frames, generations, honoured = KINDS[name]
    monkeypatch.chdir(tmp_path)
    words = [f"--agilerl={FILES / name}.yaml", "--headless", "--device=cpu"]
    assert train("evolution", words) == 0
    run = only_run(tmp_path)
    last, manifest = metrics_of(run)[-1], manifest_of(run)
    assert (manifest["status"], last["frames"]) == ("finished", frames)
    assert manifest["task"] == task
    losses = [value for tag, value in last["losses"].items() if tag.startswith("Loss")]
    assert losses
    assert all(value is not None and math.isfinite(value) for value in losses)
    values = load_yaml(run / "params/agent.yaml")
    for path, expected in honoured.items():
        assert functools.reduce(operator.getitem, path.split("."), values) == expected
    assert len(json.loads((run / "lineage.json").read_text())) == generations
