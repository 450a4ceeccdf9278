"""Action terms reach the actuators of the joints they name."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from tests.envs.sliders import (
    CTRL_DRIVE,
    CTRL_PUSH,
    CTRL_SERVO,
    DRIVE,
    DT,
    HOME,
    PUSH,
    PUSH_MASS,
    SERVO,
    make_env,
    place,
    terms,
)


def test_effort_pushes_its_joint_and_no_other():
    env = make_env(2, actions=terms(force=mdp.JointEffortActionCfg(joint_names="push", scale=5.0)))
    place(env, [[0.0] * 4] * 2, [[0.0] * 4] * 2)
    env.step(torch.tensor([[0.4], [-0.8]]))
    assert torch.equal(env.sim.ctrl[:, CTRL_PUSH], torch.tensor([2.0, -4.0]))
    # Semi-implicit Euler: v = F / m dt, x = v dt.
    velocity = torch.tensor([2.0, -4.0]) / PUSH_MASS * DT
    assert torch.allclose(env.sim.data.qvel[:, PUSH], velocity)
    assert torch.allclose(env.sim.data.qpos[:, PUSH], velocity * DT)
    assert (env.sim.data.qvel[:, PUSH + 1 :] == 0.0).all()


def test_velocity_action_is_a_target_velocity():
    action = mdp.JointVelocityActionCfg(joint_names="drive", scale=2.0, offset=0.5)
    env = make_env(1, actions=terms(speed=action))
    place(env, [[0.0] * 4], [[0.0] * 4])
    env.step(torch.tensor([[1.0]]))
    assert env.sim.ctrl[0, CTRL_DRIVE] == 2.5
    # kv (target - v) / m dt, with kv = m = 1.
    assert env.sim.data.qvel[0, DRIVE].item() == pytest.approx(2.5 * DT)
    assert env.sim.data.qvel[0, PUSH] == 0.0


def test_position_action_counts_from_the_default_position_or_the_offset():
    for use_default, target in ((True, HOME[SERVO] + 0.6), (False, 0.1 + 0.6)):
        action = mdp.JointPositionActionCfg(
            joint_names="servo", scale=2.0, offset=0.1, use_default_offset=use_default
        )
        env = make_env(1, actions=terms(pose=action))
        env.step(torch.tensor([[0.3]]))
        assert env.sim.ctrl[0, CTRL_SERVO].item() == pytest.approx(target)
