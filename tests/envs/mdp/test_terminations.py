"""Termination terms, at their bounds."""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.managers import TerminationTermCfg
from tests.envs.sliders import joint, make_env, place, push, terms


def test_time_out_ends_an_episode_after_exactly_its_length():
    env = make_env(1)
    ends = []
    for step in range(1, 21):
        *_, terminated, truncated, _ = push(env, 0.0)
        assert not terminated.any()
        if truncated.item():
            ends.append(step)
    assert ends == [10, 20]


def test_joint_pos_out_of_manual_limit():
    for names, positions, out in (
        (("push",), (1.5, 0.0, 0.0, 0.0), False),
        (("push",), (1.51, 0.0, 0.0, 0.0), True),
        (("push",), (-0.51, 0.0, 0.0, 0.0), True),
        (("push",), (0.0, 9.0, 0.0, 0.0), False),
        (("push", "loose"), (0.0, 0.0, 0.0, 9.0), True),
    ):
        term = TerminationTermCfg(
            func=mdp.joint_pos_out_of_manual_limit,
            params={"asset_cfg": joint(*names), "bounds": (-0.5, 1.5)},
        )
        env = make_env(1, terminations=terms(out=term))
        place(env, [list(positions)], [[0.0] * 4])
        assert env._get_dones()[0].tolist() == [out], (names, positions)
