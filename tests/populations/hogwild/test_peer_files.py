"""Spec files in the style of SLM-Lab's users, each of a different kind, all train.

Most run in the mode ``dev``, which fails by itself if a parameter was not changed, or is no longer
a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envlab.cli import main
from envlab.config import load_yaml
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.baseline import BASELINES
from tests.trained import manifest_of, metrics_of, only_run

FILES = Path(__file__).parent / "peer_files"
needs_ale = pytest.mark.skipif(
    not atari.has_ale(), reason="needs ale-py: pip install -e '.[atari]'"
)


class Kind(NamedTuple):
    """A spec and its outcome."""

    file: str
    name: str
    frames: int
    """Of all sessions, at the end."""
    task: str
    honoured: Mapping[str, Any]
    """Its special settings, by path in the run's ``params/agent.yaml``."""
    mode: str = "dev"
    settings: Sequence[str] = ()


KINDS = (
    Kind(
        *("version_3.json", "reinforce_cartpole", 400, "gym:CartPole-v0"),
        {"algorithm": "reinforce", "num_episodes": 2, "net.activation": "selu"},
    ),
    Kind(
        *("version_3.json", "a3c_nstep_cartpole", 400, "gym:CartPole-v1"),
        {"algorithm": "a2c", "distributed": "synced", "num_sessions": 2, "num_steps_per_env": 5},
        mode="train",
    ),
    Kind(
        *("policies.json", "a2c_recurrent", 320, "gym:CartPole-v1"),
        {"net.recurrent": "lstm", "net.sequence_length": 3, "optimizer": "rmsprop"},
    ),
    Kind(
        *("values.json", "dqn_per_cartpole", 400, "gym:CartPole-v1"),
        {"algorithm": "dqn", "replay.alpha": 0.6, "net.dueling": True, "loss": "huber"},
    ),
    Kind(
        *("values.json", "sarsa_boltzmann_cartpole", 320, "gym:CartPole-v1"),
        {"algorithm": "sarsa", "action_policy": "boltzmann", "clip_grad_norm": 0.4},
    ),
    Kind(
        *("version_5.yaml", "ppo_pendulum", 800, "gym:Pendulum-v1"),
        {"optimizer": "adamw", "normalize_rewards": True, "settings.mini_batches": 5},
    ),
    Kind(
        *("version_5.yaml", "crossq_pendulum", 300, "gym:Pendulum-v1"),
        {
            "algorithm": "crossq",
            "policy_delay": 2,
            "net.critic_layers": [20, "batch_renorm", "relu"],
        },
    ),
    Kind(
        *("version_5.yaml", "async_sac_halfcheetah", 400, "gym:HalfCheetah-v4"),
        {"algorithm": "sac", "distributed": "shared", "num_sessions": 2},
        mode="train",
    ),
)
GAMES = (
    Kind(
        *("values.json", "ddqn_pong", 120, f"gym:{atari.__name__}:SLM-Lab/Pong-v5"),
        {
            "algorithm": "ddqn",
            "net.layers": [[4, 8, 4, 0, 1], "relu", [4, 4, 2, 0, 1], "relu", 16, "relu"],
        },
    ),
)


def at(values: Any, path: str) -> Any:
    """Return the value at a dotted path."""
    for key in path.split("."):
        values = values[key]
    return values


def without_baseline(task: str) -> None:
    """Store a random policy's return: measuring it takes longer than these runs."""
    BASELINES.parent.mkdir(parents=True)
    BASELINES.write_text(json.dumps({task: 0.0}))


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, id=kind.name) for kind in KINDS),
        *(pytest.param(kind, id=kind.name, marks=needs_ale) for kind in GAMES),
    ],
)
def test_a_spec_trains_as_it_says(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    without_baseline(kind.task)
    settings = [word for pair in kind.settings for word in ("-s", pair)]
    assert main(["lab", "run", str(FILES / kind.file), kind.name, kind.mode, *settings]) == 0
    run = only_run(tmp_path)
    records, agent = metrics_of(run), load_yaml(run / "params/agent.yaml")
    assert manifest_of(run)["status"] == "finished"
    assert manifest_of(run)["task"] == kind.task
    assert records[-1]["frames"] == kind.frames
    losses = records[-1]["losses"].values()
    assert losses
    assert all(loss is not None and math.isfinite(loss) for loss in losses)
    assert {path: at(agent, path) for path in kind.honoured} == kind.honoured
