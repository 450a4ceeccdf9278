"""Termination terms, at their bounds."""

from __future__ import annotations

import math

from envlab.envs import mdp
from envlab.envs.terms import termination
from tests.envs.sliders import joint, make_env, place, terms


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
