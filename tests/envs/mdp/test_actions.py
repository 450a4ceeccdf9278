"""Action terms reach the actuators of the joints they name: as they are, relative, or in two."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.errors import ConfigurationError
from tests.envs.arms import make_arm
from tests.envs.sliders import (
    CTRL_DRIVE,
    CTRL_PUSH,
    CTRL_SERVO,
    DRIVE,
    DT,
    HOME,
    PUSH,
    SERVO,
    make_env,
    place,
    terms,
)
from tests.tasks.making import make


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


CTRL_HINGE, CTRL_RIGHT, CTRL_LEFT = range(3)


def fingers(cfg: type, actions: list[float], **fields) -> list[float]:
    """Return the control of the left finger in each environment after a step."""
    gripper = cfg(
        joint_names="slide_.*",
        open_command_expr={"slide_.*": 0.04},
        close_command_expr={"slide_.*": -0.02},
        **fields,
    )
    env = make_arm(len(actions), actions=terms(gripper=gripper))
    env.step(torch.tensor(actions).unsqueeze(1))
    return env.sim.ctrl[:, CTRL_LEFT].tolist()


def test_velocities_are_binary_too_and_bounded_by_joint():
    velocity = mdp.BinaryJointVelocityActionCfg
    assert fingers(velocity, [-0.1, 0.0, 1.0]) == pytest.approx([-0.02, 0.04, 0.04])
    bounds = {"slide_left": (-0.01, 0.03)}
    assert fingers(velocity, [-1.0, 1.0], clip=bounds) == pytest.approx([-0.01, 0.03])


def test_an_absolute_action_opens_beyond_a_threshold():
    absolute, actions = mdp.AbsBinaryJointPositionActionCfg, [0.4, 0.5, 0.6]
    assert fingers(absolute, actions) == pytest.approx([-0.02, -0.02, 0.04])
    below = fingers(absolute, actions, positive_threshold=False)
    assert below == pytest.approx([0.04, -0.02, -0.02])
    assert fingers(absolute, actions, threshold=0.3) == pytest.approx([0.04] * 3)


def test_a_target_is_where_the_joint_is_plus_the_scaled_action():
    few_falls = "+env.events.reset_base.params.num_states=8"
    clip = "env.actions.joint_pos.clip=[-2.0,2.0]"
    env = make("Playground-Go1Getup-v0", few_falls, clip, num_envs=4)
    before = env.sim.data.qpos[:, 7:].clone()
    actions = torch.linspace(-3.0, 3.0, 48).view(4, 12)
    env.action_manager.process_action(actions)
    assert torch.equal(env.sim.ctrl, (before + 0.5 * actions).clamp(-2.0, 2.0))
    assert (env.sim.ctrl == 2.0).any()


def test_an_offset_is_added_and_bounds_may_be_by_joint():
    few_falls = "+env.events.reset_base.params.num_states=8"
    offset = "env.actions.joint_pos.offset={FL_calf_joint:0.125}"
    clip = "env.actions.joint_pos.clip={FL_hip_joint:[-0.1,0.1]}"
    env = make("Playground-Go1Getup-v0", few_falls, offset, clip, num_envs=4)
    before = env.sim.data.qpos[:, 7:].clone()
    actions = torch.ones(4, 12)
    env.action_manager.process_action(actions)
    names = env.action_manager.names()
    expected = before + 0.5
    expected[:, names.index("FL_calf_joint")] += 0.125
    expected[:, names.index("FL_hip_joint")].clamp_(-0.1, 0.1)
    assert torch.equal(env.sim.ctrl, expected)


@pytest.mark.parametrize("each_substep", [False, True])
def test_a_relative_target_follows_the_joint_where_it_is_asked_to(each_substep: bool):
    """In each physics step the servo is 0.2 ahead of itself; else of where the step began."""
    term = mdp.RelativeJointPositionActionCfg(joint_names="servo", each_substep=each_substep)
    env = make_env(1, decimation=2, actions=terms(servo=term))
    env.step(torch.tensor([[0.2]]))
    # Two steps of Euler at kp 10 and 1 kg: the first moves by 0.1 s squared times 10 * 0.2.
    begin, middle = HOME[SERVO], HOME[SERVO] + DT**2 * 10.0 * 0.2
    expected = (middle if each_substep else begin) + 0.2
    assert env.sim.ctrl[0, CTRL_SERVO].item() == pytest.approx(expected, abs=1e-6)
    assert (env.action_manager.describe()["servo"] is None) == each_substep
