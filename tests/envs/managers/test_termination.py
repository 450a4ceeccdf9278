"""Failures and time limits are distinguished, and counted by cause."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.managers import TerminationTermCfg
from envlab.envs.terms import reward, termination
from envlab.sim import host
from tests.envs.sliders import joint, make_env, place, push, terms


def limit(name: str) -> TerminationTermCfg:
    return termination(mdp.joint_pos_out_of_manual_limit, asset_cfg=joint(name), bounds=(-1.0, 1.0))


@pytest.fixture
def env():
    """Four environments: fine, push out, push and servo out, and all that with the time up."""
    time_out = termination(mdp.time_out, time_out=True)
    limits = terms(push_out=limit("push"), time_out=time_out, servo_out=limit("servo"))
    env = make_env(4, terminations=limits)
    rows = [[0.0] * 4, [2.0, 0.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [0.0] * 4]
    place(env, rows, [[0.0] * 4] * 4)
    env.episode_length_buf[2:] = 9
    return env


def test_a_failure_outweighs_a_time_limit_in_the_same_step(env):
    _, _, terminated, truncated, _ = push(env, 0.0, 0.0, 0.0, 0.0)
    assert terminated.tolist() == [False, True, True, False]
    assert truncated.tolist() == [False, False, False, True]
    # The manager keeps both causes, as reward terms may ask.
    assert env.termination_manager.time_outs.tolist() == [False, False, True, True]


def test_log_is_the_share_of_ended_episodes_by_cause(env):
    log = push(env, 0.0, 0.0, 0.0, 0.0)[-1]["log"]
    shares = [log[f"Episode_Termination/{name}"] for name in ("push_out", "time_out", "servo_out")]
    assert shares == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_a_gpus_log_of_terms_of_several_types_is_a_cpus(monkeypatch):
    """Terminations are bool, and rewards are not; rows that differ are joined by type."""
    logs = []
    for devices in ({"cpu"}, set()):
        monkeypatch.setattr(host, "HOST", devices)
        time_out = termination(mdp.time_out, time_out=True)
        alive = terms(alive=reward(mdp.is_alive, 1.0))
        limits = terms(push_out=limit("push"), time_out=time_out)
        env = make_env(4, terminations=limits, rewards=alive)
        for age in (3, 5):
            rows = [[0.0] * 4, [2.0, 0.0, 0.0, 0.0], [0.0] * 4, [0.0] * 4]
            place(env, rows, [[0.0] * 4] * 4)
            env.episode_length_buf.copy_(torch.tensor([age, age, age, 1000]))
            log = env.step(torch.zeros_like(env.actions))[4]["log"]
        logs.append({name: float(value) for name, value in log.items()})
    assert logs[0] == pytest.approx(logs[1])
    assert logs[0]["Episode_Termination/push_out"] == 0.5
    assert logs[0]["Episode_Termination/time_out"] == 0.5
