"""Velocity commands that are drawn normally."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.errors import ConfigurationError
from envlab.sim import host
from tests.envs.hopper import make_env, step
from tests.envs.sliders import rank, terms
from tests.graphs import record_steps


def make(num_envs: int, time_s: float = 1.0, standing: float = 0.0, **ranges) -> ManagerEnv:
    command = mdp.NormalVelocityCommandCfg(
        resampling_time_range=(time_s, time_s),
        rel_standing_envs=standing,
        ranges=mdp.NormalVelocityRangesCfg(**ranges),
    )
    return make_env(num_envs, commands=terms(go=command))


def test_draws_have_their_distribution_on_both_sides_of_zero():
    env = make(4000, mean_vel=(1.0, 0.0, 3.0), std_vel=(0.1, 0.5, 0.0))
    step(env)
    values = env.command_manager.get_command("go")
    # Without a width, each is the mean or its opposite.
    assert (values[:, 2].abs() == 3.0).all()
    for column in range(3):
        assert (values[:, column] > 0.0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    sizes = values[:, 0].abs()
    assert sizes.mean().item() == pytest.approx(1.0, abs=0.01)
    assert sizes.std().item() == pytest.approx(0.1, abs=0.01)
    assert values[:, 1].std().item() == pytest.approx(0.5, abs=0.03)
    # Signs are drawn for each velocity.
    assert (values[:, 0] * values[:, 2]).mean().item() == pytest.approx(0.0, abs=0.2)


def test_some_velocities_are_zero_and_some_robots_stand():
    env = make(4000, standing=0.2, zero_prob=(0.5, 0.0, 1.0))
    step(env)
    is_zero = env.command_manager.get_command("go") == 0.0
    shares = is_zero.float().mean(dim=0).tolist()
    assert shares == pytest.approx([1.0 - 0.5 * 0.8, 0.2, 1.0], abs=0.03)
    term = env.command_manager.get_term("go")
    assert torch.equal(term.is_standing_env, is_zero[:, 1])


def test_errors_count_and_commands_may_be_held():
    env = make(2, zero_prob=(1.0, 1.0, 1.0), mean_vel=(1.0, 0.0, 0.0), std_vel=(0.5, 0.25, 1.0))
    step(env)
    term = env.command_manager.get_term("go")
    assert list(term.metrics) == ["error_vel_xy", "error_vel_yaw"]
    assert term.bounds()["forward (m/s)"] == (-2.0, 2.0)
    term.hold([0.5, 0.0, -1.0])
    step(env)
    assert term.command.tolist() == [[0.5, 0.0, -1.0]] * 2


def test_a_run_goes_on_with_its_commands():
    cfg = {"time_s": 0.03, "standing": 0.3, "zero_prob": (0.3, 0.3, 0.3)}
    env = make(8, **cfg)
    step(env, 5)
    other = make(8, **cfg)
    other.set_state(env.state())
    for _ in range(10):
        step(env)
        step(other)
        found = [one.command_manager.get_command("go") for one in (env, other)]
        assert torch.equal(*found)


def test_processes_draw_what_one_does():
    cfg = {"time_s": 0.03, "standing": 0.3, "zero_prob": (0.3, 0.3, 0.3)}
    whole = make(14, **cfg)
    parts = [ManagerEnv(make(7, **cfg).cfg, context=rank(i, 2), seed=0) for i in range(2)]
    for _ in range(10):
        for env in (whole, *parts):
            step(env)
        expected, *found = (one.command_manager.get_command("go") for one in (whole, *parts))
        assert torch.equal(torch.cat(found), expected)


def test_steps_are_recorded_with_their_commands(monkeypatch):
    cfg = {"time_s": 0.03, "standing": 0.3, "zero_prob": (0.3, 0.3, 0.3)}
    plain = make(8, **cfg)
    monkeypatch.setattr(host, "HOST", set())
    recorded = make(8, **cfg)
    recording = record_steps(recorded)
    for env in (plain, recorded):
        env.reset(seed=0)
    for _ in range(12):
        found = []
        for env in (plain, recorded):
            step(env)
            found.append(env.command_manager.get_command("go"))
        assert torch.equal(*found)
    assert recording.is_made


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"zero_prob": (0.0, 1.5, 0.0)}, r"zero_prob .* has 1\.5, which must be between 0 and 1"),
        ({"std_vel": (-1.0, 1.0, 1.0)}, r"std_vel .* has -1\.0, which must be 0 or more"),
        ({"standing": math.nan}, r"rel_standing_envs .* has nan"),
    ],
)
def test_what_is_no_distribution_is_refused(wrong, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        make(1, **wrong)
