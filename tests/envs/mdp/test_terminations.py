"""Termination terms, at their bounds."""

from __future__ import annotations

import math

from envlab.envs import mdp
from envlab.envs.terms import termination
from tests.envs.sliders import joint, make_env, place, push, terms


def test_joint_pos_out_of_manual_limit():
    for names, rows, out in (
        (["push"], [[1.5, 0, 0, 0], [1.51, 0, 0, 0], [-0.51, 0, 0, 0], [0, 9, 0, 0]], [0, 1, 1, 0]),
        (["push", "loose"], [[0.0, 0, 0, 9]], [1]),
    ):
        limits = {"asset_cfg": joint(*names), "bounds": (-0.5, 1.5)}
        term = termination(mdp.joint_pos_out_of_manual_limit, **limits)
        env = make_env(len(rows), terminations=terms(out=term))
        place(env, rows, [[0.0] * 4] * len(rows))
        assert env._get_dones()[0].tolist() == out, names


def test_nan_detection_looks_at_the_fields_that_the_task_reads():
    env = make_env(3, sim={"data_fields": ("xpos",)})
    place(env, [[0.0] * 4] * 3, [[0.0] * 4] * 3)
    assert mdp.nan_detection(env).tolist() == [False] * 3
    env.sim.data.qvel[1, 2], env.sim.data.xpos[2, 1, 0] = math.nan, math.inf
    assert mdp.nan_detection(env).tolist() == [False, True, True]


def test_an_episode_ends_when_its_command_has_been_drawn_so_many_times():
    command = mdp.UniformCommandCfg(resampling_time_range=(0.3, 0.3), ranges=[(-1.0, 1.0)])
    for num_resamples, length in ((0, 3), (1, 6), (2, 9)):
        params = {"command_name": "goal", "num_resamples": num_resamples}
        env = make_env(
            1,
            commands=terms(goal=command),
            terminations=terms(out=termination(mdp.command_resample, **params)),
            episode_length_s=9.0,
        )
        env.reset()
        ends = [push(env, 0.0)[2].item() for _ in range(2 * length)]
        # The clock of an episode that begins within a step runs from that step on, as Isaac Lab's.
        assert [i + 1 for i, ended in enumerate(ends) if ended] == [length, 2 * length - 1]
