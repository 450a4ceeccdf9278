"""``envlab.make``: by an id alone, and without cost to importing envlab."""

from __future__ import annotations

import subprocess
import sys

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
    with pytest.raises(AttributeError, match="has no attribute 'mak'"):
        _ = envlab.mak


def test_envlab_shows_make_and_imports_nothing_for_it():
    code = (
        "import sys, envlab; print('make' in dir(envlab), {'torch', 'gymnasium'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True set()\n"
