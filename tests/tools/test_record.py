"""``envlab record``: frames as LeRobot's datasets hold them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from envlab import cli
from envlab.envs.wrappers.lerobot import LeRobotVectorEnvWrapper
from envlab.errors import ConfigurationError
from envlab.registry import make
from envlab.tools import record

PLAYED = ["record", "rsl_rl", "--task=Isaac-Cartpole-v0", "--checkpoint=pretrained"]


def test_a_dataset_has_observations_actions_and_rewards():
    env = make("Isaac-Cartpole-v0", num_envs=1, device="cpu")
    wrapped = LeRobotVectorEnvWrapper(env, obs_type="pixels_agent_pos", height=48, width=64)
    features = record.features_of(wrapped)
    assert {name: (one["dtype"], tuple(one["shape"])) for name, one in features.items()} == {
        "observation.state": ("float32", (4,)),
        "observation.image": ("video", (48, 64, 3)),
        "action": ("float32", (1,)),
        "next.reward": ("float32", (1,)),
        "next.done": ("bool", (1,)),
    }
    frame = record.frame(
        {"agent_pos": np.ones((1, 4), np.float32), "pixels": np.zeros((1, 48, 64, 3), np.uint8)},
        np.array([[0.5]]),
        np.array([2.0]),
        np.array([True]),
        "balance",
    )
    assert set(frame) == {*features, "task"}
    for name, feature in features.items():
        assert frame[name].shape == tuple(feature["shape"]), name
        assert str(frame[name].dtype) == {"video": "uint8"}.get(feature["dtype"], feature["dtype"])
    env.close()


def test_a_step_that_divides_no_second_is_one_sentence():
    assert [record.frames_per_second(step_dt) for step_dt in (1 / 60, 0.02)] == [60, 50]
    with pytest.raises(ConfigurationError, match=r"0\.03 s, but LeRobot requires a whole number"):
        record.frames_per_second(0.03)


def test_a_folder_that_is_there_is_not_written_to(tmp_path, capsys):
    assert cli.main([*PLAYED, f"--output={tmp_path}"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_lerobot_the_error_names_the_package_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lerobot.datasets.lerobot_dataset", None)
    assert cli.main([*PLAYED, f"--output={tmp_path / 'new'}"]) == 2
    assert "pip install 'lerobot[dataset]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_policy_becomes_a_dataset_that_lerobot_reads(tmp_path):
    pytest.importorskip("lerobot", reason="needs lerobot: see docs/lerobot.md")
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    folder = tmp_path / "balancing"
    words = ["--obs_type=state", "--num_episodes=2", "env.episode_length_s=0.2"]
    assert cli.main([*PLAYED, f"--output={folder}", *words]) == 0
    dataset = LeRobotDataset("envlab/balancing", root=folder)
    assert (dataset.num_episodes, len(dataset), dataset.fps) == (2, 24, 60)
    frames = [dataset[i] for i in range(24)]
    assert [bool(frame["next.done"]) for frame in frames] == 2 * [*11 * [False], True]
    assert all(float(frame["next.reward"]) > 0 for frame in frames)
    assert frames[0]["observation.state"].shape == (4,)
