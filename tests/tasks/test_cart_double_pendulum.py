"""The double pendulum has Isaac Lab 2.3.2's numbers, and both agents' rewards follow by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from envlab.envs import DirectMarlEnv
from tests.tasks import making
from tests.tasks.making import put

NUM_ENVS = 3
AGENTS = ["cart", "pendulum"]
make = partial(making.make, "Isaac-Cart-Double-Pendulum-Direct-v0")


@pytest.fixture
def env() -> DirectMarlEnv:
    return make()


def act(cart: float, pendulum: float) -> dict[str, torch.Tensor]:
    values = zip(AGENTS, (cart, pendulum), strict=True)
    return {agent: torch.full((NUM_ENVS, 1), value) for agent, value in values}


def rewards_at(env: DirectMarlEnv, qpos: list[float], qvel: list[float]) -> list[float]:
    """Return both agents' rewards of a step that ends in a state."""
    put(env, qpos, qvel)
    env._get_dones()
    rewards = env._get_rewards()
    return [rewards[agent][0].item() for agent in AGENTS]


def test_observations_of_a_state_do_not_show_whole_turns(env):
    for turns in (0.0, 2.0 * math.pi):
        put(env, [0.5, 0.2 + turns, -0.3 - 2.0 * turns], [-1.0, 3.0, 4.0])
        seen = env._get_observations()
        assert seen["cart"][0].tolist() == pytest.approx([0.5, -1.0, 0.2, 3.0], abs=1e-5)
        assert seen["pendulum"][0].tolist() == pytest.approx([-0.1, -0.3, 4.0], abs=1e-5)


def test_units_of_action(env):
    env.step(act(0.5, -0.2))
    assert env.sim.ctrl[0].tolist() == pytest.approx([50.0, -10.0])


def test_rewards_of_a_state(env):
    table = [
        # cart: 1 - 0.3^2 - 0.01 * 2 - 0.01 * 4; pendulum: 1 - (0.3 - 0.5)^2 - 0.01 * 6
        ([0.5, 0.3, -0.5], [-2.0, 4.0, -6.0], [0.85, 0.90]),
        # The same, -2 in place of 1.
        ([3.5, 0.3, -0.5], [2.0, -4.0, 6.0], [-2.15, -2.10]),
        # cart: -2 - 1.6^2; pendulum: -2 - (1.6 + 3.1)^2, the sum of angles being left as it is
        ([0.0, 1.6, 3.1], [0.0, 0.0, 0.0], [-4.56, -24.09]),
        # Whole turns of the pendulum do not count: 1 - 0.25^2
        ([0.0, 0.0, 0.25 - 2.0 * math.pi], [0.0, 0.0, 0.0], [1.0, 0.9375]),
    ]
    for qpos, qvel, rewards in table:
        assert rewards_at(env, qpos, qvel) == pytest.approx(rewards, rel=1e-5), qpos
    weighed = make("env.rew_scale_cart_pos=-0.5")
    assert rewards_at(weighed, [2.0, 0.0, 0.0], [0.0] * 3) == pytest.approx([-1.0, 1.0])


def test_where_episodes_end(env):
    for qpos, fails in (
        *(([2.99, 1.57, 0.0], False), ([-3.01, 0.0, 0.0], True), ([0.0, 1.58, 0.0], True)),
        *(([0.0, -1.58, 0.0], True), ([0.0, 0.0, 3.1], False)),
    ):
        put(env, qpos)
        terminated, _ = env._get_dones()
        assert [terminated[agent].tolist() for agent in AGENTS] == [[fails] * NUM_ENVS] * 2, qpos


def test_how_long_episodes_last(env):
    """Isaac Lab's direct tasks count the step to come: their episodes are a step shorter."""
    env.episode_length_buf[:] = 297
    put(env, [0.0, 0.0, 0.0])
    assert not env.step(act(0.0, 0.0))[3]["cart"].any()
    truncated = env.step(act(0.0, 0.0))[3]
    assert all(truncated[agent].all() for agent in AGENTS)
