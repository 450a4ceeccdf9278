"""The double pendulum has Isaac Lab 2.3.2's numbers, and both agents' rewards follow by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from envlab.envs import DirectMarlEnv
from tests.tasks import making

TASK = "Isaac-Cart-Double-Pendulum-Direct-v0"
NUM_ENVS = 3
AGENTS = ["cart", "pendulum"]


make = partial(making.make, TASK)


@pytest.fixture
def env() -> DirectMarlEnv:
    return make()


def place(env: DirectMarlEnv, qpos: list[float], qvel: list[float] | None = None) -> None:
    """Put all environments into one state: cart, pole, pendulum."""
    rows = torch.tensor([qpos, qvel or [0.0] * 3]).unsqueeze(1).repeat(1, env.num_envs, 1)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), rows[0], rows[1])


def act(cart: float, pendulum: float) -> dict[str, torch.Tensor]:
    return {
        "cart": torch.full((NUM_ENVS, 1), cart),
        "pendulum": torch.full((NUM_ENVS, 1), pendulum),
    }


def rewards_at(env: DirectMarlEnv, qpos: list[float], qvel: list[float]) -> list[float]:
    """Return both agents' rewards of a step that ends in a state."""
    place(env, qpos, qvel)
    env._get_dones()
    rewards = env._get_rewards()
    return [rewards[agent][0].item() for agent in AGENTS]


# The reference table ------------------------------------------------------------------------------


def test_observations_of_a_state(env):
    place(env, [0.5, 0.2, -0.3], [-1.0, 3.0, 4.0])
    observations = env._get_observations()
    assert observations["cart"][0].tolist() == pytest.approx([0.5, -1.0, 0.2, 3.0])
    assert observations["pendulum"][0].tolist() == pytest.approx([-0.1, -0.3, 4.0])


def test_whole_turns_are_not_seen(env):
    place(env, [0.0, 0.2 + 2.0 * math.pi, -0.3 - 4.0 * math.pi])
    observations = env._get_observations()
    assert observations["cart"][0, 2].item() == pytest.approx(0.2, abs=1e-5)
    assert observations["pendulum"][0].tolist() == pytest.approx([-0.1, -0.3, 0.0], abs=1e-5)


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
        place(env, qpos)
        terminated, _ = env._get_dones()
        assert {agent: values.tolist() for agent, values in terminated.items()} == dict.fromkeys(
            AGENTS, [fails] * NUM_ENVS
        ), qpos


def test_how_long_episodes_last(env):
    """Isaac Lab's direct tasks count the step to come: their episodes are a step shorter."""
    env.episode_length_buf[:] = 297
    place(env, [0.0, 0.0, 0.0])
    assert not env.step(act(0.0, 0.0))[3]["cart"].any()
    truncated = env.step(act(0.0, 0.0))[3]
    assert all(truncated[agent].all() for agent in AGENTS)
