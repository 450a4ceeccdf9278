"""Gains, friction and armature are changed per environment, as the draws say."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.envs.actuators import DCMotorCfg
from envlab.envs.managers import EventTermCfg
from tests.envs.refusals import assert_refused
from tests.envs.sliders import (
    CTRL_DRIVE,
    CTRL_SERVO,
    DT,
    LOOSE,
    MODEL,
    joint,
    make_cfg,
    make_env,
    place,
    rank,
    terms,
)

GAINS = {"model_fields": ("actuator_gainprm", "actuator_biasprm")}
JOINTS = {"model_fields": ("dof_frictionloss", "dof_armature")}


BACKENDS = pytest.mark.parametrize(
    "backend", ["mujoco", pytest.param("mujoco_warp", marks=pytest.mark.long)]
)
"""tests/sim/test_warp_backend.py shows that Warp follows parameters; its kernels compile long."""


def event(func, name: str, mode: str = "startup", **params) -> EventTermCfg:
    return EventTermCfg(func=func, mode=mode, params={"asset_cfg": joint(name), **params})


def gains(name: str, **params) -> EventTermCfg:
    return event(mdp.randomize_actuator_gains, name, **params)


@BACKENDS
def test_a_position_servo_of_changed_stiffness_pulls_that_much(backend):
    if backend == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    operations = {"scale": (2.0, 20.0), "add": (3.0, 13.0), "abs": (4.0, 4.0)}
    for operation, (value, expected) in operations.items():
        bounds = (value, value)
        term = gains("servo", stiffness_distribution_params=bounds, operation=operation)
        env = make_env(2, sim=GAINS | {"backend": backend}, events=terms(gains=term))
        place(env, [[0.0, 0.5, 0.0, 0.0]] * 2, [[0.0] * 4] * 2)
        env.step(torch.zeros(2, 1))
        # 1 kg, from 0.5 m towards 0 m, one explicit step: v = -kp 0.5 dt
        assert env.sim.data.qvel[:, 1].tolist() == pytest.approx([-expected * 0.5 * DT] * 2)


def test_draws_that_cannot_be_made_are_refused():
    def made(name: str, bounds=(1.0, 2.0), **params: str) -> object:
        term = gains(name, stiffness_distribution_params=bounds, **params)
        return make_env(1, sim=GAINS, events=terms(gains=term))

    log = {"bounds": (0.0, 1.0), "distribution": "log_uniform"}
    assert_refused(
        {
            "be uniform, log_uniform or gaussian": lambda: made("servo", distribution="poisson"),
            "must be greater than 0": lambda: made("servo", **log),
            "must be add, scale or abs": lambda: made("servo", operation="times"),
            "has none": lambda: made("push"),
        }
    )


def test_damping_of_servos_and_velocity_drives():
    servo = gains("servo", damping_distribution_params=(3.0, 3.0))
    drive = gains("drive", damping_distribution_params=(5.0, 5.0), operation="scale")
    env = make_env(2, sim=GAINS, events=terms(servo=servo, drive=drive))
    gain, bias = env.sim.params.actuator_gainprm[1], env.sim.params.actuator_biasprm[1]
    assert (gain[CTRL_SERVO, 0], bias[CTRL_SERVO, 1], bias[CTRL_SERVO, 2]) == (10.0, -10.0, -3.0)
    assert (gain[CTRL_DRIVE, 0], bias[CTRL_DRIVE, 2]) == (5.0, -5.0)


def test_gains_of_a_motor_with_a_torque_speed_line():
    factors = {
        "stiffness_distribution_params": (2.0,) * 2,
        "damping_distribution_params": (3.0,) * 2,
    }
    term = gains("push", **factors, operation="scale")
    cfg = make_cfg(2, sim=GAINS, events=terms(gains=term))
    motor = DCMotorCfg(stiffness=8.0, damping=1.5, saturation_effort=99.0, velocity_limit=99.0)
    cfg.scene = SceneCfg(num_envs=2, model=MODEL, actuators={"push": motor})
    env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
    place(env, [[0.25, 0.0, 0.0, 0.0]] * 2, [[0.5, 0.0, 0.0, 0.0]] * 2)
    env.step(torch.zeros(2, 1))
    # 2 kg: v = 0.5 + (16 (0 - 0.25) - 4.5 0.5) dt / 2
    assert env.sim.data.qvel[:, 0].tolist() == pytest.approx([0.5 - 6.25 * DT / 2.0] * 2)


@BACKENDS
def test_friction_and_armature_slow_a_joint(backend):
    if backend == "mujoco_warp":
        pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    params = {
        "friction_distribution_params": (2.0, 2.0),
        "armature_distribution_params": (3.0, 3.0),
    }
    term = event(mdp.randomize_joint_parameters, "push", **params)
    env = make_env(2, sim=JOINTS | {"backend": backend}, events=terms(joints=term))
    place(env, [[0.0] * 4] * 2, [[0.0] * 4] * 2)
    env.step(torch.tensor([[12.0], [1.0]]))
    # (12 N - 2 N) over 2 kg + 3 kg; 1 N does not overcome 2 N of friction, which is a soft
    # constraint: MuJoCo lets 22 % through, mujoco_warp 10 % (its set_const counts the armature in
    # dof_invweight0, MuJoCo's does not).
    velocity = env.sim.data.qvel[:, 0].tolist()
    assert velocity[0] == pytest.approx(10.0 / 5.0 * DT, rel=1e-3)
    assert abs(velocity[1]) < 0.25 * (1.0 / 5.0 * DT)
    assert env.sim.params.dof_armature[0, LOOSE] == 0.0
