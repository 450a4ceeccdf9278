"""Pushes, by hand."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_intervals, at_reset
from envlab.errors import ConfigurationError
from tests.envs.hopper import ARM_MASS, DT, GRAVITY, LEFT, MASS, make_env, place, step
from tests.envs.sliders import terms


def pushed(**velocity_range: tuple[float, float]):
    """Return an environment that is pushed every 5 steps."""
    push = at_intervals((0.05,) * 2, mdp.push_by_setting_velocity, velocity_range=velocity_range)
    return make_env(events=terms(push=push))


def test_a_push_adds_to_the_velocity_of_the_root_and_to_nothing_else():
    env = pushed(x=(0.5, 0.5), yaw=(0.25, 0.25))
    place(env, height=5.0, quat=LEFT, lin_vel=(1.0, 0.0, 0.0))
    step(env, 4)
    assert env.sim.data.qvel[0, :2].tolist() == pytest.approx([1.0, 0.0], abs=1e-4)
    step(env)
    expected = [1.5, 0.0, -5 * DT * GRAVITY, 0.0, 0.0, 0.25, 0.0]
    assert env.sim.data.qvel[0].tolist() == pytest.approx(expected, abs=1e-3)
    assert env.sim.data.qpos[0, 0].item() == pytest.approx(5 * DT, abs=1e-4)


def test_a_push_refuses_an_axis_that_is_none():
    with pytest.raises(ConfigurationError, match="velocity_range has the key 'forward'"):
        step(pushed(forward=(0.0, 1.0)), 6)


WIND = mdp.apply_external_force_torque


def on_block(force: float) -> dict[str, object]:
    """Return parameters of a force on the block."""
    block, bounds = SceneEntityCfg(body_names="block"), (force, force)
    return {"asset_cfg": block, "force_range": bounds, "torque_range": (0.0, 0.0)}


def test_a_force_accelerates_by_force_over_mass():
    env = make_env(events=terms(wind=at_intervals((0.01, 0.01), WIND, **on_block(25.0))))
    place(env, height=5.0)
    step(env)  # the event comes after the physics of its step
    before = env.sim.data.qvel[0, :3].clone()
    step(env)
    gained = (env.sim.data.qvel[0, :3] - before).tolist()
    expected = 25.0 / (MASS + ARM_MASS) * DT
    # The block turns about the common centre of mass, which hardly moves it in one step.
    assert gained[1] == pytest.approx(expected, rel=0.25)
    assert gained[2] == pytest.approx(expected - GRAVITY * DT, abs=0.25 * expected)


def test_a_force_of_zero_costs_nothing_and_does_nothing(monkeypatch):
    env = make_env(events=terms(wind=at_reset(WIND, **on_block(0.0))))
    monkeypatch.setattr(env.sim, "apply_wrench", None)  # a call would fail
    env.reset()
    assert (env.sim.xfrc_applied == 0.0).all()


def bumped(num_envs: int = 1, duration=(0.02, 0.02), cooldown=(0.03, 0.03), **params):
    """Return an environment whose block is pushed for 2 steps after each 3."""
    given = on_block(5.0) | {"duration_s": duration, "cooldown_s": cooldown} | params
    event = EventTermCfg(func=mdp.apply_body_impulse, mode="step", params=given)
    return make_env(num_envs, events=terms(bump=event))


def test_an_impulse_waits_pushes_and_waits_again():
    env = bumped()
    forces = []
    for _ in range(11):
        step(env)
        forces.append(env.sim.xfrc_applied[0, 1, 0].item())
    assert forces == [0.0] * 3 + [5.0] * 2 + [0.0] * 3 + [5.0] * 2 + [0.0]
    step(env, 3)
    assert env.sim.xfrc_applied[0, 1, 0].item() == 5.0
    env.reset()
    assert not env.sim.xfrc_applied.any()
    step(env, 3)
    assert not env.sim.xfrc_applied.any()


def test_impulses_are_drawn_per_environment_and_turn_by_their_lever():
    params = {"force_range": (-4.0, 4.0), "body_point_offset": (0.0, 0.0, 0.1)}
    env = bumped(200, duration=(0.5, 0.5), cooldown=(0.01, 0.1), **params)
    place(env, height=5.0, quat=LEFT)
    step(env, 12)
    force, torque = env.sim.xfrc_applied[:, 1].split(3, dim=1)
    assert force.abs().max() <= 4.0
    assert force.unique().numel() == 600
    assert torch.equal(env.memories["events.bump"].is_active, torch.ones(200, dtype=torch.bool))
    # The point is above the centre in the body's frame, as LEFT turns about z.
    up = torch.tensor([0.0, 0.0, 0.1]).expand_as(force)
    assert torch.allclose(torque, torch.linalg.cross(up, force), atol=1e-2)
