"""Configuration files in the style of AgileRL's users, each of a different kind, all train."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envlab.config import load_yaml
from envlab.training.launch import train
from tests.trained import manifest_of, metrics_of, only_run

FILES = Path(__file__).parent / "peer_files"
has_mpe2 = importlib.util.find_spec("mpe2") is not None
SEVERAL = "gym:envlab_populations.crew:PettingZoo-v0"
needs_mpe2 = pytest.mark.skipif(not has_mpe2, reason="needs mpe2: pip install -e '.[pettingzoo]'")


def kind(
    name: str, task: str, frames: int, generations: int, honoured: dict[str, Any], *marks: Any
) -> Any:
    """Return a case: frames are of all members, and ``honoured`` lies in ``params/agent.yaml``."""
    return pytest.param(name, task, frames, generations, honoured, id=name, marks=marks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "task", "frames", "generations", "honoured"),
    [
        kind("dqn_of_0_1", "gym:CartPole-v1", 240, 2, {"agent.class": "DDQN"}),
        kind(
            *("dqn_multi_frequency", "gym:Acrobot-v1", 480, 2),
            {"agent.class": "DDQN", "population.size": 4},
        ),
        kind(
            *("ddpg_simba", "gym:HalfCheetah-v4", 100, 2),
            {"agent.exploration_noise": "GaussianNoise", "population.size": 1},
        ),
        kind(
            *("td3_of_2_0", "gym:LunarLanderContinuous-v3", 300, 3),
            {"agent.class": "TD3", "agent.policy_delay": 3, "network.hidden_dims": [20, 24, 16]},
        ),
        kind(
            *("ppo_continuous", "gym:InvertedPendulum-v4", 320, 2),
            {"agent.class": "PPO", "agent.rollouts": 20, "network.activation": "tanh"},
        ),
        kind(
            *("matd3", SEVERAL, 200, 2),
            *({"agent.class": "MATD3", "agent.policy_delay": 2}, needs_mpe2),
        ),
    ],
)
def test_a_file_trains_as_it_says(
    name: str,
    task: str,
    frames: int,
    generations: int,
    honoured: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
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
    found = {}
    for path in honoured:
        found[path] = values
        for key in path.split("."):
            found[path] = found[path][key]
    assert found == honoured
    lineage = json.loads((run / "lineage.json").read_text())
    assert len(lineage) == generations
