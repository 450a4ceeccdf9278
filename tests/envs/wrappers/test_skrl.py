"""skrl's own detection, runner and trainer on envlab's environments."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest
import torch
from skrl.envs.wrappers.torch import wrap_env
from skrl.utils.runner.torch import Runner

from envlab.envs.wrappers.skrl import SkrlVecEnvWrapper
from envlab.registry import discover, get_task, load_agent_values

discover()
CARTPOLE = "Isaac-Cartpole-v0"
PENDULUM = "Isaac-Cart-Double-Pendulum-Direct-v0"


@pytest.mark.parametrize("wrap", [SkrlVecEnvWrapper, wrap_env])
def test_an_environment_is_recognised_and_its_own_runner_trains(wrap, tmp_path: Path):
    env = wrap(gymnasium.make(CARTPOLE, num_envs=4, device="cpu").unwrapped)
    assert env.observation_space.shape == (4,)
    assert env.state_space is None
    values = load_agent_values(get_task(CARTPOLE), "skrl")
    values["trainer"]["timesteps"] = 32
    values["trainer"]["disable_progressbar"] = True
    values["agent"]["experiment"] |= {"directory": str(tmp_path), "experiment_name": "run"}
    Runner(env, values).run("train")
    assert list((tmp_path / "run").rglob("*.pt"))


def test_several_agents_share_their_state():
    env = SkrlVecEnvWrapper(gymnasium.make(PENDULUM, num_envs=2, device="cpu").unwrapped)
    obs, _ = env.reset()
    assert list(obs) == env.possible_agents == ["cart", "pendulum"]
    obs, rewards, *_ = env.step({agent: torch.zeros(2, 1) for agent in obs})
    assert rewards["cart"].shape == (2, 1)
    assert torch.equal(env.state()["cart"], torch.cat(list(obs.values()), dim=1))
