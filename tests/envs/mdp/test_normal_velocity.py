"""Velocity commands that are drawn normally."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError
from tests.envs.hopper import make_env, step
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import group, terms


def make(num_envs: int, time_s: float = 1.0, standing: float = 0.0, **ranges) -> ManagerEnv:
    command = mdp.NormalVelocityCommandCfg(
        resampling_time_range=(time_s, time_s),
        rel_standing_envs=standing,
        ranges=mdp.NormalVelocityRangesCfg(**ranges),
    )
    seen = group(go=observation(mdp.generated_commands, command_name="go"))
    return make_env(num_envs, commands=terms(go=command), observations=terms(policy=seen))


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


def test_commands_keep_the_promises_of_every_task():
    cfg = make(8, time_s=0.03, standing=0.3, zero_prob=(0.3, 0.3, 0.3)).cfg
    assert_keeps_promises(cfg)
