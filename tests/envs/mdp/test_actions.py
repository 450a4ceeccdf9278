"""Action terms reach the actuators of the joints they name."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.errors import ConfigurationError
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


JOINTS = ["servo", "push", "drive"]


def controls(cfg: mdp.JointEffortActionCfg, *actions: float) -> list[float]:
    """Return the controls of drive, push and servo after a step."""
    env = make_env(1, actions=terms(all=cfg))
    env.step(torch.tensor([actions]))
    return env.sim.ctrl[0].tolist()


def test_offsets_and_bounds_may_be_given_by_joint():
    cfg = mdp.JointEffortActionCfg(
        joint_names=JOINTS,
        scale={"push": 2.0, "servo|drive": 1.0},
        offset={"p.*": 0.5},
        clip={"push": (-1.0, 1.0), "drive": (0.25, 9.0)},
    )
    # In the model's order of joints, push, servo, drive; the servo has neither offset nor bound.
    assert controls(cfg, 0.1, -3.0, -3.0) == pytest.approx([0.25, 0.7, -3.0])
    assert controls(cfg, 4.0, 7.0, 2.0) == pytest.approx([2.0, 1.0, 7.0])


def test_actions_may_keep_the_order_of_the_names():
    ordered = mdp.JointEffortActionCfg(joint_names=JOINTS, preserve_order=True)
    assert controls(ordered, 1.0, 2.0, 3.0) == [3.0, 2.0, 1.0]
    assert controls(mdp.JointEffortActionCfg(joint_names=JOINTS), 1.0, 2.0, 3.0) == [3.0, 1.0, 2.0]
    # A pattern's own joints are in the model's order.
    patterns = ["drive", "push|servo"]
    found = mdp.JointEffortActionCfg(joint_names=patterns, preserve_order=True)
    assert controls(found, 1.0, 2.0, 3.0) == [1.0, 2.0, 3.0]
    env = make_env(1, actions=terms(all=ordered))
    assert env.action_manager.names() == JOINTS


@pytest.mark.parametrize("cfg", [mdp.JointPositionActionCfg, mdp.RelativeJointPositionActionCfg])
def test_positions_are_those_of_the_joints_in_this_order(cfg):
    action = cfg(joint_names=["servo", "push"], preserve_order=True, scale={"s.*": 2.0, "p.*": 1.0})
    env = make_env(1, actions=terms(pose=action))
    env.step(torch.tensor([[0.25, -0.5]]))
    assert env.sim.ctrl[0, CTRL_SERVO].item() == pytest.approx(HOME[SERVO] + 0.5)
    assert env.sim.ctrl[0, CTRL_PUSH].item() == pytest.approx(-0.5)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"clip": (1.0, -1.0)}, r"clip is \[1.0, -1.0\], but must be \[lower, upper\]"),
        ({"clip": {"push": (1.0, -1.0)}}, r"clip is \[1.0, -1.0\]"),
        ({"clip": {"pusch": (0.0, 1.0)}}, r"'pusch' matches none of the joints push"),
        ({"offset": {"p.*": 1.0, ".*sh": 2.0}}, "matches 2 of the patterns.*at most one"),
        ({"scale": {"servo": 1.0}}, "matches 0 of the patterns servo.*exactly one"),
    ],
)
def test_settings_that_fit_no_joint_are_refused(wrong, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        make_env(1, actions=terms(force=mdp.JointEffortActionCfg(joint_names="push", **wrong)))
