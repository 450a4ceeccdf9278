"""play.py on a briefly trained policy with a normaliser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from envlab.cli import play
from tests.trained import TASK, check_exported, checkpoint_of


@pytest.fixture(scope="module")
def played(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    checkpoint = f"--checkpoint={trained}/checkpoints/model_4.pt"
    words = [TASK, "--device=cpu", "--num_envs=4", "--num_episodes=6", checkpoint]
    with (folder / "out.txt").open("w") as file, contextlib.redirect_stdout(file):
        assert play("rsl_rl", words) == 0
    return folder


def test_returns_lengths_and_joints_are_printed(played: Path):
    text = (played / "out.txt").read_text()
    assert "model_4.pt: iteration 4, 2,048 frames" in text
    assert re.search(r"^Mean return -?\d+\.\d+ \(std \d+\.\d+\) over 8 episodes$", text, re.M)
    assert re.search(r"^Mean episode length \d+\.\d of 300 steps$", text, re.M)
    assert re.search(r"slider_to_cart \d+\.\d+, cart_to_pole \d+\.\d+$", text, re.M)


def test_what_was_measured_stands_beside_the_checkpoint_until_more_episodes_are(
    played: Path, trained: Path, tmp_path: Path
):
    path = trained / "checkpoints/evaluation_4.json"
    first = json.loads(path.read_text())
    assert f"Evaluation {os.path.relpath(path)}" in (played / "out.txt").read_text()
    assert {"iteration": 4, "frames": 2048, "num_episodes": 8}.items() <= first.items()
    low, high = first["intervals"]["return"]
    assert low < first["return"] < high
    checkpoint = f"--checkpoint={trained}/checkpoints/model_4.pt"
    words = [TASK, "--device=cpu", "--num_envs=4", "--no_export", checkpoint]
    assert play("rsl_rl", [*words, "--num_episodes=4"]) == 0  # fewer
    assert play("rsl_rl", [*words, "--num_episodes=12", "env.rewards.alive.weight=2"]) == 0
    assert json.loads(path.read_text()) == first  # another task
    assert play("rsl_rl", [*words, "--num_episodes=12"]) == 0
    assert json.loads(path.read_text())["num_episodes"] == 12


def test_exported_policies_act_like_the_trained_one(played: Path, trained: Path):
    """The normaliser is inside: the same network without it acts differently."""
    names = "checkpoint.json deploy.py deploy.yaml policy.onnx policy.pt scene.xml".split()
    assert sorted(path.name for path in (trained / "exported").iterdir()) == names
    state = checkpoint_of(trained, 4)["model"]["actor_state_dict"]
    assert float(state["obs_normalizer._var"].max()) > 1.5
    obs = 3.0 * torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    std = state["obs_normalizer._std"] + 1e-2
    hidden = (obs - state["obs_normalizer._mean"]) / std
    for layer in (0, 2, 4):
        hidden = hidden @ state[f"mlp.{layer}.weight"].T + state[f"mlp.{layer}.bias"]
        if layer < 4:
            hidden = torch.nn.functional.elu(hidden)
    check_exported(trained, obs, hidden)


def test_a_checkpoint_outside_a_run_is_exported_next_to_it(trained: Path, tmp_path: Path):
    alone = tmp_path / "kept" / "model.pt"
    alone.parent.mkdir()
    shutil.copy(trained / "checkpoints/model_4.pt", alone)
    flags = [TASK, "--device=cpu", "--num_envs=2", f"--checkpoint={alone}"]
    networks = [f"agent.{name}.obs_normalization=true" for name in ("actor", "critic")]
    assert play("rsl_rl", [*flags, *networks]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (alone.parent / "exported/policy.pt").is_file()
