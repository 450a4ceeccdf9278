"""The tables of active terms that a training begins with."""

from __future__ import annotations

import torch

from envlab.envs import mdp
from envlab.envs.active_terms import active_terms
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.terms import at_startup, observation, reward, termination
from tests.envs.sliders import group, make_env, terms


def nothing(env, mask, stream) -> None:
    del env, mask, stream


def test_each_manager_has_a_table_of_its_terms_with_their_shapes():
    env = make_env(
        2,
        observations=terms(
            policy=group(
                pos=ObservationTermCfg(func=mdp.joint_pos, history_length=3), last=observation(two)
            ),
            critic=group(two=observation(two)),
        ),
        rewards=terms(alive=reward(mdp.is_alive, 2.5)),
        terminations=terms(late=termination(mdp.time_out, time_out=True)),
        events=terms(first=at_startup(nothing)),
    )
    width = 3 * env.sim.model.nq
    rows = [line.split() for line in active_terms(env).splitlines()]
    assert ["0", "pos", f"({width},)"] in rows
    assert ["1", "last", "(2,)"] in rows
    assert ["0", "two", "(2,)"] in rows
    assert ["0", "alive", "2.5"] in rows
    assert ["0", "late", "True"] in rows
    assert ["0", "first", "startup"] in rows
    assert f"group 'policy', ({width + 2},)" in active_terms(env)


def two(env) -> torch.Tensor:
    return torch.zeros(env.num_envs, 2)


def test_images_have_their_shape():
    def picture(env) -> torch.Tensor:
        return torch.zeros(env.num_envs, 8, 6, 1)

    env = make_env(2, observations=terms(policy=group(depth=observation(picture))))
    assert "0 depth (8, 6, 1)" in " ".join(active_terms(env).split())
