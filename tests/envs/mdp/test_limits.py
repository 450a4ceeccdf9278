"""Limits of joints' positions and velocities, by hand."""

from __future__ import annotations

import pytest

from envlab.envs import SceneCfg, mdp
from envlab.envs.actuators import DCMotorCfg
from envlab.errors import ConfigurationError
from tests.envs import hopper
from tests.envs.sliders import make_env, place, select

SPEEDS = [[1.0, -2.0, 0.0, 0.0], [0.0, -3.5, 0.5, 0.0]]


def test_a_joint_is_out_of_its_soft_limits():
    env = hopper.make_env()  # from -1 to 3, of which 0.9 are -0.8 to 2.8
    arm = select(env)
    for angle, factor, is_out in (
        *((2.79, 0.9, False), (2.81, 0.9, True), (-0.81, 0.9, True), (-0.79, 0.9, False)),
        *((2.99, 1.0, False), (3.01, 1.0, True)),
    ):
        hopper.place(env, arm=angle)
        assert mdp.joint_pos_out_of_limit(env, factor, arm).tolist() == [is_out], angle
    free = make_env(1)  # joints without limits are never out of them
    place(free, [[1e6] * 4], [[0.0] * 4])
    assert mdp.joint_pos_out_of_limit(free, 0.5, select(free)).tolist() == [False]


def test_velocities_beyond_limits():
    env = make_env(2)
    place(env, [[0.0] * 4] * 2, SPEEDS)
    robot, two = select(env), select(env, joint_names=["push", "servo"])
    by_name = {"push|drive": 1.0, "servo": 3.0, "loose": 9.0}
    for value, expected in (
        (mdp.joint_vel_limits(env, 0.5, 3.0, robot), [0.5, 1.0]),  # 0.5, and 1 of 2
        (mdp.joint_vel_limits(env, 1.0, by_name, robot), [0.0, 0.5]),
        (mdp.joint_vel_limits(env, 0.2, 3.0, two), [1.0 + 0.4, 1.0]),
        (mdp.joint_vel_out_of_limit(env, 3.0, robot), [False, True]),
        (mdp.joint_vel_out_of_limit(env, by_name, robot), [False, True]),
        (mdp.joint_vel_out_of_manual_limit(env, 2.0, two), [False, True]),
        (mdp.joint_vel_out_of_manual_limit(env, 1.9, two), [True, True]),
    ):
        assert value.tolist() == pytest.approx(expected)


def test_a_dc_motors_limit_is_the_speed_at_which_it_has_no_torque():
    motor = DCMotorCfg(saturation_effort=10.0, velocity_limit=4.0, stiffness=5.0)
    scene = SceneCfg(num_envs=1, model=hopper.MODEL, actuators={"arm": motor})
    env = hopper.make_env(scene=scene)
    arm = select(env)
    hopper.place(env, arm_vel=-3.5)
    assert mdp.joint_vel_limits(env, 0.75, asset_cfg=arm).tolist() == pytest.approx([0.5])
    assert mdp.joint_vel_out_of_limit(env, asset_cfg=arm).tolist() == [False]
    hopper.place(env, arm_vel=-4.5)
    assert mdp.joint_vel_out_of_limit(env, asset_cfg=arm).tolist() == [True]


def test_without_a_limit_one_is_asked_for():
    env = make_env(1)
    with pytest.raises(ConfigurationError, match=r"'push' has no limit .* a velocity_limit"):
        mdp.joint_vel_limits(env, 1.0, asset_cfg=select(env))
