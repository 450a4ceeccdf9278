"""Rewards of moving an object follow by hand."""

from __future__ import annotations

import math

import pytest

from envlab.envs import mdp
from tests.envs.arms import make_arm, pose
from tests.envs.sliders import select, terms

GOAL = mdp.UniformPoseCommandCfg(
    body_name="thumb",
    resampling_time_range=(1e6, 1e6),
    ranges=mdp.PoseRangesCfg(pos_x=(0.5, 0.5)),
)


def test_the_object_is_seen_from_the_base():
    env = make_arm()
    pose(env, ball=(0.7, 2.6, 0.9))
    # The base is at (1, 2, 0.5), and its x axis is the world's y, its y the world's -x.
    seen = mdp.object_position_in_robot_root_frame(env, select(env), select(env, "object"))
    assert seen[0].tolist() == pytest.approx([0.6, 0.3, 0.4], abs=1e-6)


def test_distance_of_the_object_from_the_grasp_point():
    env = make_arm()
    ee, ball = select(env, site_names="ee"), select(env, "object")
    pose(env, ball=(1.0, 2.5, 0.6))  # where the site is
    assert mdp.object_ee_distance(env, 0.1, ball, ee).tolist() == pytest.approx([1.0] * 2, abs=1e-5)
    pose(env, ball=(1.03, 2.46, 0.6))
    expected = 1.0 - math.tanh(0.5)
    assert mdp.object_ee_distance(env, 0.1, ball, ee)[0].item() == pytest.approx(expected, abs=1e-5)


def test_only_a_lifted_object_counts():
    env = make_arm(commands=terms(goal=GOAL))  # at (1, 2.5, 0.5)
    robot, ball = select(env), select(env, "object")
    for height, lifted in ((0.039, 0.0), (0.041, 1.0)):
        pose(env, ball=(1.0, 2.5, height))
        assert mdp.object_is_lifted(env, 0.04, ball).tolist() == [lifted] * 2
        tracked = mdp.object_goal_distance(env, 0.3, 0.04, "goal", robot, ball)
        expected = lifted * (1.0 - math.tanh((0.5 - height) / 0.3))
        assert tracked.tolist() == pytest.approx([expected] * 2, abs=1e-5)
