"""Commanded and possible efforts, by hand and as MuJoCo has them."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneCfg, mdp
from envlab.envs.actuators import AnyActuatorCfg, DCMotorCfg, IdealPDActuatorCfg
from envlab.envs.mdp.joints import joint_efforts
from envlab.errors import ConfigurationError
from tests.envs import hopper
from tests.envs.sliders import CTRL_DRIVE, CTRL_PUSH, CTRL_SERVO, make_env, place, select

FIELDS = {"data_fields": ("sensordata", "actuator_force", "qfrc_actuator")}
MOTOR = DCMotorCfg(
    stiffness=20.0, damping=2.0, effort_limit=8.0, saturation_effort=10.0, velocity_limit=4.0
)
DAMPER = DCMotorCfg(damping=5.0, saturation_effort=10.0, velocity_limit=4.0)


def test_the_arm_is_asked_for_more_than_its_actuator_can_do():
    env = hopper.make_env(sim=FIELDS)  # kp 100, kv 10, up to 50 N m
    arm = select(env)
    for angle, speed, beyond in ((0.2, 1.0, 0.0), (-0.5, 0.5, 0.0), (0.9, 0.0, 40.0)):
        hopper.place(env, arm=angle, arm_vel=speed)
        assert mdp.applied_torque_limits(env, arm).tolist() == pytest.approx([beyond], rel=1e-4)
        assert mdp.joint_effort_out_of_limit(env, arm).tolist() == [beyond > 0.0]


@pytest.mark.parametrize("actuator", [MOTOR, DAMPER, IdealPDActuatorCfg(stiffness=20.0, damping=2)])
@pytest.mark.parametrize("limit", ["", ' actuatorfrcrange="-3 3"'])
def test_the_possible_effort_is_mujocos(actuator: AnyActuatorCfg, limit: str, tmp_path):
    model = tmp_path / "hopper.xml"
    with open(hopper.MODEL) as file:
        model.write_text(file.read().replace('range="-1 3"', f'range="-1 3"{limit}'))
    scene = SceneCfg(num_envs=64, model=str(model), actuators={"arm": actuator})
    env = hopper.make_env(64, sim=FIELDS, scene=scene)
    generator = torch.Generator().manual_seed(0)
    qpos = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]).repeat(64, 1)
    qpos[:, 7], qvel = torch.rand(64, generator=generator), torch.zeros(64, 7)
    qvel[:, 6] = 8.0 * torch.rand(64, generator=generator) - 4.0
    env.sim.reset(torch.ones(64, dtype=torch.bool), qpos, qvel)  # controls are 0
    computed, applied = joint_efforts(env, select(env))
    torch.testing.assert_close(applied[:, 0], env.sim.data.qfrc_actuator[:, 6], atol=1e-4, rtol=0)
    kp, kd = actuator.stiffness, actuator.damping
    expected = -kp * qpos[:, 7] - kd * qvel[:, 6]
    torch.testing.assert_close(computed[:, 0], expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(mdp.joint_effort(env, select(env)), applied, atol=1e-4, rtol=0)


def test_efforts_of_motors_servos_and_drives():
    env = make_env(1)
    place(env, [[1.0, 0.5, 0.0, 0.0]], [[0.0, 3.0, 2.0, 0.0]])
    env.sim.ctrl[:, [CTRL_PUSH, CTRL_SERVO, CTRL_DRIVE]] = torch.tensor([7.0, 1.0, 5.0])
    computed, applied = joint_efforts(env, select(env))
    assert computed.tolist() == applied.tolist() == [[7.0, 10.0 * 0.5, 5.0 - 2.0]]


def test_randomised_gains_count():
    env = make_env(2, sim={"model_fields": ("actuator_gainprm", "actuator_biasprm")})
    place(env, [[0.0, 0.5, 0.0, 0.0]] * 2, [[0.0] * 4] * 2)
    env.sim.params.actuator_biasprm[1, CTRL_SERVO, 1] = -30.0
    computed, _ = joint_efforts(env, select(env, joint_names=["servo"]))
    assert computed.tolist() == [[-5.0], [-15.0]]


def test_power_counts_where_actuators_push():
    env = make_env(1, sim={"data_fields": ("qfrc_actuator",)})
    place(env, [[0.0] * 4], [[2.0, -3.0, 2.0, 1.0]])
    env.sim.data.qfrc_actuator[:] = torch.tensor([[5.0, 4.0, -1.0, 0.0]])
    assert mdp.electrical_power_cost(env, select(env)).tolist() == [10.0]
    assert mdp.joint_effort(env, select(env, joint_names=["servo"])).tolist() == [[4.0]]


def test_joints_without_actuators_are_refused():
    env = make_env(1)
    with pytest.raises(ConfigurationError, match="None of the joints loose has an actuator"):
        mdp.applied_torque_limits(env, select(env, joint_names=["loose"]))
