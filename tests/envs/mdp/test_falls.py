"""Robots that begin after a fall: the states, and the environments that draw them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.envs.math import gravity_in_body
from envlab.envs.mdp.falls import fallen_states
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg


def make(num_envs: int = 64, seed: int = 0, rank: int = 0, **params: Any) -> VectorEnv:
    task = get_task("Playground-Go1Getup-v0")
    cfg = load_env_cfg(task)
    cfg.events.reset_base.params |= {"num_states": 40, **params}
    context = DistributedContext(rank=rank, world_size=2, num_threads=1)
    return task.make(cfg, context=context, num_envs=num_envs, seed=seed)


def states_of(env: VectorEnv) -> torch.Tensor:
    return next(value for key, value in env.constants.items() if key[0] == "falls")


def test_states_are_everyones_and_draws_are_ones_own():
    first, second = make(seed=0), make(seed=1, rank=1)
    assert torch.equal(states_of(first), states_of(second))
    assert not torch.equal(first.sim.data.qpos, second.sim.data.qpos)
    rows = first.sim.data.qpos[:, 7:]
    distance = (rows[:, None] - states_of(first)[:, 7:19]).abs().amax(dim=2).min(dim=1)
    assert distance.values.max() < 1e-6  # joints are those of a state, roots are turned
    assert len(distance.indices.unique()) > 20
    fallen_states.cache_clear()
    assert torch.equal(states_of(make(seed=0)), states_of(first))


def test_a_state_is_turned_about_the_vertical_with_its_velocity():
    env = make()
    states = states_of(env)
    joints = env.sim.data.qpos[:, None, 7:] - states[:, 7:19]
    own = states[joints.abs().amax(dim=2).argmin(dim=1)]
    gravity, own_gravity = map(gravity_in_body, (env.sim.data.qpos[:, 3:7], own[:, 3:7]))
    assert torch.allclose(gravity, own_gravity, atol=1e-5)
    speed, own_speed = (values.norm(dim=1) for values in (env.sim.data.qvel[:, :2], own[:, 19:21]))
    assert torch.allclose(speed, own_speed, atol=1e-5)
    assert torch.allclose(env.sim.data.qvel[:, 2:], own[:, 21:], atol=1e-5)
    angle = torch.atan2(env.sim.data.qvel[:, 1], env.sim.data.qvel[:, 0])
    assert angle.std() > 1.0


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(ConfigurationError, match="num_states 0"):
        make(num_states=0)
