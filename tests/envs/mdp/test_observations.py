"""Observation terms read the named quantities, on sliders at known places."""

from __future__ import annotations

import pytest

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.terms import observation
from tests.envs.sliders import HOME, group, joint, make_env, place, terms


def observe(func, **params) -> list[float]:
    """Return the term's values for sliders at 1, 2, 3, 4 m with speeds 5, 6, 7, 8 m/s."""
    env = make_env(
        1,
        sim={"data_fields": ("sensordata",)},
        observations=terms(policy=group(term=observation(func, **params))),
    )
    place(env, [[1.0, 2.0, 3.0, 4.0]], [[5.0, 6.0, 7.0, 8.0]])
    return env._get_observations()["policy"][0].tolist()


def test_joint_positions_and_velocities():
    assert observe(mdp.joint_pos) == [1.0, 2.0, 3.0, 4.0]
    assert observe(mdp.joint_vel) == [5.0, 6.0, 7.0, 8.0]
    assert observe(mdp.joint_vel_rel, asset_cfg=joint("servo", "loose")) == [6.0, 8.0]


def test_relative_positions_count_from_the_home_keyframe():
    assert observe(mdp.joint_pos_rel) == [1.0 - HOME[0], 2.0 - HOME[1], 3.0, 4.0 - HOME[3]]
    assert observe(mdp.joint_pos_rel, asset_cfg=joint("loose")) == [4.25]


def test_sensors_by_name():
    assert observe(mdp.sensor, asset_cfg=SceneEntityCfg(sensor_names="push_vel")) == [5.0]
    assert observe(mdp.sensor, asset_cfg=SceneEntityCfg(sensor_names=".*")) == [4.0, 5.0]


def test_times_of_an_episode():
    env = make_env(2)  # 10 steps of 0.1 s
    env.episode_length_buf[1] = 7
    assert mdp.current_time_s(env).tolist() == [pytest.approx([0.0]), pytest.approx([0.7])]
    assert mdp.remaining_time_s(env).tolist() == [pytest.approx([1.0]), pytest.approx([0.3])]
