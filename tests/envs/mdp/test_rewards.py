"""Reward terms, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.terms import reward, termination
from envlab.errors import ConfigurationError
from tests.envs import hopper
from tests.envs.sliders import joint, make_env, place, push, select, terms


def reward_of(func, positions=(0.0,) * 4, velocities=(0.0,) * 4, **params) -> float:
    """Return the term's value, per second, with the sliders at ``positions``."""
    env = make_env(1, rewards=terms(term=reward(func, 1.0, **params)))
    place(env, [list(positions)], [list(velocities)])
    return env.reward_manager.compute().item() / env.step_dt


def test_joint_pos_target_l2_wraps_whole_turns():
    for angle, target, expected in (
        *((0.5, 0.0, 0.25), (-0.5, 0.5, 1.0), (2 * math.pi + 0.5, 0.0, 0.25)),
        (-2 * math.pi - 0.5, 0.0, 0.25),
        (1.5 * math.pi, 0.0, (0.5 * math.pi) ** 2),  # three quarters of a turn are one back
        (5 * math.pi - 0.1, 0.0, (math.pi - 0.1) ** 2),
    ):
        at, servo = (9.0, angle, 9.0, 9.0), joint("servo")
        value = reward_of(mdp.joint_pos_target_l2, at, asset_cfg=servo, target=target)
        assert value == pytest.approx(expected, rel=1e-4), (angle, target)


def test_joint_velocity_penalties():
    velocities, two = (-1.0, 2.0, -3.0, 4.0), {"asset_cfg": joint("push", "drive")}
    for func, of_all, of_two in ((mdp.joint_vel_l1, 10.0, 4.0), (mdp.joint_vel_l2, 30.0, 10.0)):
        assert reward_of(func, velocities=velocities) == pytest.approx(of_all)
        assert reward_of(func, velocities=velocities, **two) == pytest.approx(of_two)


def test_action_penalties():
    """Of actions (3, -1) after (1, 1), for 0.1 s."""
    forces = terms(forces=mdp.JointEffortActionCfg(joint_names=["push", "drive"]))
    for func, expected in ((mdp.action_l2, 9.0 + 1.0), (mdp.action_rate_l2, 4.0 + 4.0)):
        env = make_env(1, actions=forces, rewards=terms(term=reward(func, 1.0)))
        env.step(torch.tensor([[1.0, 1.0]]))
        _, earned, *_ = env.step(torch.tensor([[3.0, -1.0]]))
        assert earned.item() == pytest.approx(0.1 * expected)


def test_the_acceleration_of_actions_is_forgotten_at_resets():
    """Of actions 1, 3, 4 and, in a new episode, 1 and 1, for 0.1 s each."""
    env = make_env(1, rewards=terms(term=reward(mdp.action_acc_l2, 1.0)), episode_length_s=0.3)
    earned = [push(env, force)[1].item() for force in (1.0, 3.0, 4.0, 1.0, 1.0)]
    assert earned == pytest.approx([0.1 * change**2 for change in (1.0, 1.0, -1.0, 1.0, -1.0)])


def test_is_terminated_term_counts_the_named_failures_unless_time_is_up():
    def out(name: str):
        limits = {"asset_cfg": joint(name), "bounds": (-1.0, 1.0)}
        return termination(mdp.joint_pos_out_of_manual_limit, **limits)

    env = make_env(
        4,
        rewards=terms(
            both=reward(mdp.is_terminated_term, 1.0),
            one=reward(mdp.is_terminated_term, 100.0, term_keys=["push_.*"]),
        ),
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            push_out=out("push"),
            servo_out=out("servo"),
        ),
    )
    far = [2.0, 2.0, 0.0, 0.0]
    place(env, [[0.0] * 4, [2.0, 0.0, 0.0, 0.0], far, far], [[0.0] * 4] * 4)
    env.episode_length_buf[3] = 9
    _, earned, *_ = push(env, *[0.0] * 4)
    assert earned.tolist() == pytest.approx([0.0, 10.1, 10.2, 0.0])
    with pytest.raises(ConfigurationError, match=r"'fall', which matches none .* push_out"):
        mdp.is_terminated_term(env, "fall")


def test_the_height_of_a_base_is_above_the_points_below_it():
    scanner = terms(points=mdp.RayCasterCfg(entity="block"))
    env = hopper.make_env(sensors=scanner)
    hopper.place(env, height=1.5)
    block, points = select(env, "block"), env.sensor_manager.get_term("points")
    for target, sensor in ((1.0, None), (2.0, None), (1.0, points)):
        value = mdp.base_height_l2(env, target, block, sensor)
        assert value.tolist() == pytest.approx([0.25])


def test_mean_action_acc_is_a_mean_of_sizes():
    env = make_env(1, rewards=terms(term=reward(mdp.mean_action_acc, 1.0)), episode_length_s=0.3)
    earned = [push(env, force)[1].item() for force in (1.0, 3.0, 4.0, 1.0, 1.0)]
    assert earned == pytest.approx([0.1 * abs(change) for change in (1.0, 1.0, -1.0, 1.0, -1.0)])
