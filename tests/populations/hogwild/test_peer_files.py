"""Spec files in the style of SLM-Lab's users, each of a different kind, all train.

Most run in the mode ``dev``, which fails by itself if a parameter was not changed, or is no longer
a number.
"""

from __future__ import annotations

import functools
import json
import math
import operator
from pathlib import Path
from typing import Any

import pytest

from envlab.cli import main
from envlab.config import load_yaml
from envlab_populations.hogwild.baseline import BASELINES
from tests.trained import manifest_of, metrics_of, only_run

FILES = Path(__file__).parent / "peer_files"
KINDS: dict[str, tuple[str, str, int, str, dict[str, Any]]] = {
    "a3c_nstep_cartpole": (
        *("version_3.json", "train", 400, "gym:CartPole-v1"),
        {"algorithm": "a2c", "distributed": "synced", "num_sessions": 2, "num_steps_per_env": 5},
    ),
    "dqn_per_cartpole": (
        *("values.json", "dev", 400, "gym:CartPole-v1"),
        {"algorithm": "dqn", "replay.alpha": 0.6, "net.dueling": True, "loss": "huber"},
    ),
    "ppo_pendulum": (
        *("version_5.yaml", "dev", 800, "gym:Pendulum-v1"),
        {"optimizer": "adamw", "normalize_rewards": True, "settings.mini_batches": 5},
    ),
}
"""By spec: its file, the mode, frames of all sessions, the task, and values in ``agent.yaml``."""


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_spec_trains_as_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, mode, frames, task, honoured = KINDS[name]
    monkeypatch.chdir(tmp_path)
    BASELINES.parent.mkdir(parents=True)
    BASELINES.write_text(json.dumps({task: 0.0}))  # measuring it takes longer than these runs
    assert main(["lab", "run", str(FILES / file), name, mode]) == 0
    run = only_run(tmp_path)
    records, agent = metrics_of(run), load_yaml(run / "params/agent.yaml")
    assert manifest_of(run)["status"] == "finished"
    assert manifest_of(run)["task"] == task
    assert records[-1]["frames"] == frames
    losses = records[-1]["losses"].values()
    assert losses
    assert all(loss is not None and math.isfinite(loss) for loss in losses)
    for path, expected in honoured.items():
        assert functools.reduce(operator.getitem, path.split("."), agent) == expected
