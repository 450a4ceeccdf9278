"""Pose commands are drawn in the robot's frame, and their errors follow by hand."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab.envs import mdp
from envlab.errors import ConfigurationError
from tests.envs.arms import make_arm, pose
from tests.envs.sliders import assert_spans, select, terms

NEVER = (1e6, 1e6)


def goal(**changes) -> mdp.UniformPoseCommandCfg:
    values = {"body_name": "thumb", "resampling_time_range": NEVER}
    return mdp.UniformPoseCommandCfg(**(values | changes))


def fixed(x: float = 0.0, yaw: float = 0.0) -> mdp.PoseRangesCfg:
    return mdp.PoseRangesCfg(pos_x=(x, x), yaw=(yaw, yaw))


def test_poses_are_drawn_from_their_ranges():
    ranges = mdp.PoseRangesCfg(
        pos_x=(0.2, 0.4), pos_y=(-1.0, 1.0), pos_z=(3.0, 3.0), pitch=(math.pi,) * 2, yaw=(-0.5, 0.5)
    )
    env = make_arm(500, commands=terms(goal=goal(ranges=ranges)))
    command = env.command_manager.get_command("goal")
    assert_spans(command[:, 0], 0.2, 0.4)
    assert_spans(command[:, 1], -1.0, 1.0)
    assert (command[:, 2] == 3.0).all()
    # Half a turn about y, then yaw about the fixed z: (0, -sin(yaw / 2), cos(yaw / 2), 0).
    assert command[:, [3, 6]].abs().max() < 1e-6
    assert torch.asin(command[:, 4]).abs().max() == pytest.approx(0.25, abs=5e-3)


def test_errors_are_measured_from_the_robots_base():
    env = make_arm(commands=terms(goal=goal(ranges=fixed(x=0.6, yaw=0.4))))
    thumb = select(env, body_names="thumb")
    pose(env)  # the thumb is 0.5 m along the base's x
    env.command_manager.compute(env.step_dt)
    metrics = env.command_manager.get_term("goal").metrics
    assert metrics["position_error"].tolist() == pytest.approx([0.1] * 2, abs=1e-6)
    assert metrics["orientation_error"].tolist() == pytest.approx([0.4] * 2, abs=1e-6)
    pose(env, hinge=0.4)
    # Turned by 0.4 about the base: the sides are 0.5 and 0.6.
    distance = math.sqrt(0.25 + 0.36 - 0.6 * math.cos(0.4))
    error = mdp.position_command_error(env, "goal", thumb)
    assert error.tolist() == pytest.approx([distance] * 2, abs=1e-6)
    fine = mdp.position_command_error_tanh(env, 0.1, "goal", thumb)
    assert fine.tolist() == pytest.approx([1.0 - math.tanh(10.0 * distance)] * 2, abs=1e-5)
    for room, is_reached in ((1e-4, True), (-1e-4, False)):
        reached = mdp.position_is_reached(env, distance + room, "goal", thumb)
        assert reached.tolist() == [is_reached] * 2
    turned = mdp.orientation_command_error(env, "goal", thumb)
    assert turned.tolist() == pytest.approx([0.0] * 2, abs=1e-3)


def test_the_log_holds_the_final_error_of_an_episode():
    env = make_arm(commands=terms(goal=goal(ranges=fixed(x=0.8))))
    pose(env)
    env.step(torch.zeros(2, 1))
    env.episode_length_buf[0] = env.max_episode_length
    log = env.step(torch.zeros(2, 1))[4]["log"]
    assert log["Metrics/goal/position_error"] == pytest.approx(0.3, abs=1e-5)


def test_scalar_parts_can_be_kept_from_being_negative():
    ranges = mdp.PoseRangesCfg(yaw=(3.5, 4.5))
    for unique in (False, True):
        env = make_arm(50, commands=terms(goal=goal(ranges=ranges, make_quat_unique=unique)))
        scalars = env.command_manager.get_command("goal")[:, 3]
        assert (scalars > 0.0).all() == unique


def test_the_goal_is_in_the_picture():
    env = make_arm(commands=terms(goal=goal(ranges=fixed(x=0.5))))
    scene = mujoco.MjvScene(env.sim.model, maxgeom=20)
    env.add_markers(scene)
    assert scene.ngeom == 3
    x_axis, _, z_axis = (scene.geoms[i].pos for i in range(3))
    # The goal is at (1, 2.5, 0.5); its x axis, of 0.1 m, points to the world's y.
    assert x_axis.tolist() == pytest.approx([1.0, 2.55, 0.5], abs=1e-6)
    assert z_axis.tolist() == pytest.approx([1.0, 2.5, 0.55], abs=1e-6)


def test_the_body_must_be_one():
    with pytest.raises(ConfigurationError, match=r"'.\*' of a pose command matches robot, link"):
        make_arm(commands=terms(goal=goal(body_name=".*")))
