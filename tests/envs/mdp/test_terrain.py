"""The curriculum over levels of ground."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.managers import CurriculumTermCfg
from envlab.errors import ConfigurationError
from tests.envs.sliders import select, terms
from tests.envs.terrain.hills import make_env

COMMAND = mdp.UniformCommandCfg(
    resampling_time_range=(100.0, 100.0), ranges=[(0.6, 0.6), (0.8, 0.8), (5.0, 5.0)]
)
"""1 m/s, and a turn that does not count."""


def make_walkers(num_envs: int, **fields):
    return make_env(
        num_envs,
        episode_length_s=4.0,  # so that 2 m are half the way
        commands=terms(base_velocity=COMMAND),
        curriculum=terms(terrain_levels=CurriculumTermCfg(func=mdp.terrain_levels_vel)),
        **fields,
    )


def walk(env, *distances: float) -> None:
    """Put the robots so many metres from their origins."""
    qpos = env.sim.data.qpos.clone()
    way = torch.tensor(distances).unsqueeze(1) * torch.tensor([0.6, 0.8])
    qpos[:, :2] = env.env_origins[:, :2] + way
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos)


def test_far_walkers_go_up_and_slow_ones_down():
    env = make_walkers(4)
    env.terrain.move(torch.tensor([1, 1, 1, 1]))
    walk(env, 3.1, 2.1, 1.9, 3.1)  # tiles are 6 m long
    mask = torch.tensor([True, True, True, False])
    robot = select(env)
    mean = mdp.terrain_levels_vel(env, mask, asset_cfg=robot)
    assert env.terrain.terrain_levels.tolist() == [2, 1, 0, 1]
    assert float(mean) == 1.0


def test_levels_change_at_the_end_of_episodes_and_are_logged():
    env = make_walkers(2)
    env.terrain.move(torch.tensor([2, 2]))
    env.episode_length_buf = torch.tensor([399, 0])  # the first ends with the next step
    walk(env, 0.0, 0.0)
    *_, info = env.step(torch.zeros(2, 1))
    assert env.terrain.terrain_levels.tolist() == [1, 2]
    assert float(info["log"]["Curriculum/terrain_levels"]) == 1.5
    assert env.sim.data.qpos[0, 0] == -3.0  # level 1


def test_curriculum_without_levels_names_the_setting_to_remove():
    env = make_walkers(2, plane=True)
    with pytest.raises(ConfigurationError, match=r"Set env\.curriculum\.terrain_levels=null"):
        env.step(torch.zeros(2, 1))


def test_the_edge_is_that_of_the_border():
    env = make_walkers(4)  # 4 x 2 tiles of 6 m and a border of 5 m: 34 x 22 m
    qpos = env.sim.data.qpos.clone()
    qpos[:, :2] = torch.tensor([[14.9, 0.0], [-15.1, 0.0], [0.0, 8.9], [0.0, 9.1]])
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos)
    robot = select(env)
    outside = mdp.terrain_out_of_bounds(env, distance_buffer=2.0, asset_cfg=robot)
    assert outside.tolist() == [False, True, False, True]
    plane = make_env(2, plane=True)
    assert mdp.terrain_out_of_bounds(plane, asset_cfg=robot).tolist() == [False, False]
