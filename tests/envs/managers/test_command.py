"""Commands are drawn at resets and when their time is up; a null command is not drawn."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError
from envlab.state import Share, deal, restore, save
from tests.envs.sliders import assert_spans, group, make_env, terms


def command(time: tuple[float, float], **kwargs) -> mdp.UniformCommandCfg:
    ranges = [(-1.0, 1.0), (10.0, 20.0)]
    return mdp.UniformCommandCfg(resampling_time_range=time, **({"ranges": ranges} | kwargs))


def goals(env: ManagerEnv) -> torch.Tensor:
    return env.command_manager.get_command("goal").clone()


def changes(env: ManagerEnv, steps: int) -> list[list[int]]:
    """Return which environments got a new command in each step."""
    changed = []
    for _ in range(steps):
        before = goals(env)
        env.step(torch.zeros(env.num_envs, 1))
        changed.append((goals(env) != before).all(dim=1).nonzero()[:, 0].tolist())
    return changed


def test_a_reset_draws_commands_within_their_ranges():
    env = make_env(500, commands=terms(goal=command((5.0, 5.0))))
    drawn = goals(env)
    assert_spans(drawn[:, 0], -1.0, 1.0)
    assert_spans(drawn[:, 1], 10.0, 20.0)
    assert drawn[:, 0].unique().numel() > 490


def test_commands_last_exactly_their_time():
    for every in (1, 3, 7):
        time = (0.1 * every, 0.1 * every)
        env = make_env(2, commands=terms(goal=command(time)), episode_length_s=100.0)
        expected = [[0, 1] if step % every == 0 else [] for step in range(1, 22)]
        assert changes(env, 21) == expected, every


def test_a_resume_draws_a_command_that_the_run_did_not_have():
    goal = command((5.0, 5.0))
    before = make_env(3, commands=terms(goal=goal))
    after = make_env(3, commands=terms(new=goal, goal=goal))
    after.set_state(before.state())
    assert torch.equal(goals(after), goals(before))
    after.step(torch.zeros(3, 1))
    assert (after.command_manager.get_command("new")[:, 1] >= 10.0).all()


def test_every_environment_has_its_own_clock():
    env = make_env(3, commands=terms(goal=command((0.5, 0.5))), episode_length_s=100.0)
    env.command_manager.get_term("goal").time_left[:] = torch.tensor([0.2, 9.0, 0.3])
    assert changes(env, 8) == [[], [0], [2], [], [], [], [0], [2]]


def test_an_unknown_command_is_answered_with_the_nearest():
    env = make_env(1, commands=terms(goal=command((1.0, 1.0))))
    with pytest.raises(ConfigurationError, match=r"no command 'goals'.*Did you mean goal"):
        env.command_manager.get_term("goals")


def test_a_command_that_is_a_point_is_shown_where_it_is():
    goal = command((5.0, 5.0), ranges=[(0.5, 0.5001), (-0.2, -0.1999)], marker_height_m=0.1)
    env = make_env(2, commands=terms(goal=goal))
    scene = mujoco.MjvScene(env.sim.model, maxgeom=20)
    env.add_markers(scene)
    (position,) = (scene.geoms[i].pos for i in range(scene.ngeom))
    assert position.tolist() == pytest.approx([0.5, -0.2, 0.1], abs=1e-3)
    hidden = make_env(2, commands=terms(goal=command((5.0, 5.0))))
    hidden.add_markers(scene)
    assert scene.ngeom == 1


def test_nothing_is_drawn_and_nothing_can_be_read():
    env = make_env(commands=terms(none=mdp.NullCommandCfg()))
    for _ in range(12):  # through the end of an episode
        env.step(torch.zeros(4, 1))
    term = env.command_manager.get_term("none")
    assert term.cfg.resampling_time_range == (math.inf, math.inf)
    assert (term.time_left == math.inf).all()
    assert (term.metrics, term.bounds()) == ({}, {})
    with pytest.raises(ConfigurationError, match="reads the command of a NullCommandCfg"):
        env.command_manager.get_command("none")
    reads = observation(mdp.generated_commands, command_name="none")
    with pytest.raises(ConfigurationError, match="reads the command of a NullCommandCfg"):
        make_env(
            commands=terms(none=mdp.NullCommandCfg()),
            observations=terms(policy=group(command=reads)),
        )


def test_it_has_its_place_in_what_is_saved():
    env = make_env(commands=terms(none=mdp.NullCommandCfg()))
    saved = save(env.command_manager)
    restore(env.command_manager, saved, env.device)
    dealt = deal(env.command_manager, [saved, saved], Share(0, 2, 4))
    assert len(dealt["terms"]["none"]["time_left"]) == 2
