"""Robots that begin after a fall: the states, and the environments that draw them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
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


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(ConfigurationError, match="num_states 0"):
        make(num_states=0)
