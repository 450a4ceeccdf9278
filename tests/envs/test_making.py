"""``envlab.make``: an environment by an id alone."""

from __future__ import annotations

import pytest

import envlab
from envlab.errors import ConfigurationError, UnknownTaskError


def test_a_task_is_made_by_its_id_with_overrides():
    env = envlab.make("Isaac-Cartpole", num_envs=3, overrides=["env.decimation=4"], device="cpu")
    obs, _ = env.reset()
    assert obs["policy"].shape == (3, 4)
    assert env.cfg.decimation == 4
    assert env.cfg.scene.num_envs == 3
    env.close()


def test_mistakes_are_reported_as_on_the_command_line():
    with pytest.raises(UnknownTaskError, match="Isaac-Cartpole-v0"):
        envlab.make("Isaac-Cartpol-v0")
    with pytest.raises(ConfigurationError, match=r"env\.scene\.num_envs"):
        envlab.make("Isaac-Cartpole-v0", overrides=["env.scene.num_env=3"])
