"""A command that is none."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import mdp
from envlab.envs.terms import observation
from envlab.errors import ConfigurationError
from envlab.state import Share, deal, restore, save
from tests.envs.sliders import group, make_env, terms


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
