"""Penalties on joints, by hand."""

from __future__ import annotations

import pytest

from envlab.envs import mdp
from envlab.envs.managers import RewardTermCfg
from tests.envs.hopper import make_env, place, step
from tests.envs.sliders import terms


def env_with(func, **params):
    """Return an environment with one reward term of weight 1."""
    return make_env(
        sim={"data_fields": ("sensordata", "actuator_force", "qacc")},
        rewards=terms(term=RewardTermCfg(func=func, weight=1.0, params=params)),
    )


def value_of(env) -> float:
    return env.reward_manager.compute().item() / env.step_dt


def test_torque_penalty_is_that_of_the_limited_actuator():
    env = env_with(mdp.joint_torques_l2)
    place(env, arm=0.2, arm_vel=1.0)  # -100 * 0.2 - 10 * 1.0 N m
    assert value_of(env) == pytest.approx(900.0, rel=1e-4)
    place(env, arm=0.9)  # -90 N m, of which the actuator has 50
    assert value_of(env) == pytest.approx(2500.0, rel=1e-4)


def test_acceleration_penalty_is_that_of_the_joints_alone():
    env = env_with(mdp.joint_acc_l2)
    place(env, height=5.0)
    step(env)
    assert env.sim.data.qacc[0, 2].item() == pytest.approx(-10.0, rel=1e-3)  # falls
    assert value_of(env) == pytest.approx(0.0, abs=1e-6)
    place(env, height=5.0, arm=0.5)
    assert value_of(env) == pytest.approx(env.sim.data.qacc[0, 6].item() ** 2, rel=1e-5)
    assert value_of(env) > 1.0


@pytest.mark.parametrize(
    ("arm", "factor", "beyond"),
    # The range is -1 to 3, its middle 1; 0.9 of it is -0.8 to 2.8.
    [(0.0, 0.9, 0.0), (2.7, 0.9, 0.0), (2.95, 0.9, 0.15), (-0.9, 0.9, 0.1), (2.0, 0.25, 0.5)],
)
def test_soft_limits_leave_a_share_of_the_range(arm, factor, beyond):
    env = env_with(mdp.joint_pos_limits, soft_limit_factor=factor)
    place(env, arm=arm)
    assert value_of(env) == pytest.approx(beyond, abs=1e-5)


def test_deviation_is_from_the_default_pose():
    env = env_with(mdp.joint_deviation_l1)
    place(env, arm=-0.3)
    assert value_of(env) == pytest.approx(0.3, rel=1e-5)
