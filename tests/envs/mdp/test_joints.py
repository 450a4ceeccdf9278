"""Penalties on joints, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import mujoco
import pytest
import torch

from envlab.envs import SceneCfg, mdp
from envlab.envs.terms import reward
from envlab.errors import ConfigurationError
from tests.envs.hopper import DT, GRAVITY, MODEL, make_env, place, step
from tests.envs.sliders import select, terms


def env_with(func, decimation=2, model=MODEL, **params):
    """Return an environment with one reward term of weight 1."""
    return make_env(
        sim={"data_fields": ("sensordata", "actuator_force"), "substep_fields": ("qvel",)},
        rewards=terms(term=reward(func, 1.0, **params)),
        decimation=decimation,
        scene=SceneCfg(num_envs=1, model=str(model)),
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
    assert env.sim.data.qvel[0, 2].item() == pytest.approx(-2 * DT * GRAVITY, rel=1e-3)  # falls
    assert value_of(env) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_an_acceleration_is_the_last_physics_steps_change_of_velocity(integrator, tmp_path):
    text, path = Path(MODEL).read_text(), tmp_path / "hopper.xml"
    path.write_text(text.replace("<option ", f'<option integrator="{integrator}" '))
    env = env_with(mdp.joint_acc_l2, model=path)
    place(env, height=5.0, arm=0.05)
    model, data = env.sim.model, mujoco.MjData(env.sim.model)
    data.qpos[[2, 7]], data.qpos[3] = (5.0, 0.05), 1.0
    mujoco.mj_step(model, data)
    before = data.qvel[6]
    mujoco.mj_step(model, data)
    step(env)
    expected = ((data.qvel[6] - before) / DT) ** 2
    assert value_of(env) == pytest.approx(expected, rel=1e-4)
    # The arm's damping acts within the step, so MuJoCo's qacc differs.
    assert data.qacc[6] ** 2 != pytest.approx(expected, rel=0.05) or integrator == "Euler"


def test_soft_limits_leave_a_share_of_the_range_and_deviation_is_from_the_default_pose():
    # The range is -1 to 3, its middle 1; 0.9 of it is -0.8 to 2.8.
    for arm, factor, beyond in (
        *((0.0, 0.9, 0.0), (2.7, 0.9, 0.0), (2.95, 0.9, 0.15), (-0.9, 0.9, 0.1), (2.0, 0.25, 0.5)),
    ):
        env = env_with(mdp.joint_pos_limits, soft_limit_factor=factor)
        place(env, arm=arm)
        assert value_of(env) == pytest.approx(beyond, abs=1e-5), (arm, factor)
    env = env_with(mdp.joint_deviation_l1)
    place(env, arm=-0.3)
    assert value_of(env) == pytest.approx(0.3, rel=1e-5)
    single = env_with(mdp.joint_acc_l2, decimation=1)
    with pytest.raises(ConfigurationError, match=r"env\.decimation is 1\. Set it to 2 or more"):
        value_of(single)


def test_posture_and_standing_still_measure_deviations_from_the_default_pose():
    env = make_env(1)
    place(env, arm=0.3)
    arm, commands = select(env), {"fast": [0.0, 0.07, 0.0], "slow": [0.04, 0.04, 9.0]}
    env.command_manager = SimpleNamespace(
        get_command=lambda name: torch.tensor([commands[name]]),
    )
    assert mdp.posture(env, {".*": 0.2}, arm).item() == pytest.approx(math.exp(-(1.5**2)))
    for name, expected in (("fast", 0.0), ("slow", 0.3)):
        value = mdp.stand_still_joint_deviation_l1(env, name, asset_cfg=arm).item()
        assert value == pytest.approx(expected)
