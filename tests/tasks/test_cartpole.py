"""Both Cartpoles move, see and earn as Isaac Lab 2.3.2's; test_fidelity.py holds their numbers."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import VectorEnv
from tests.tasks.making import make, put

MANAGER, DIRECT = "Isaac-Cartpole-v0", "Isaac-Cartpole-Direct-v0"
STEP_S = 2.0 / 120.0
NUM_ENVS = 3


def place(env: VectorEnv, cart: float, pole: float, cart_vel: float = 0.0, pole_vel: float = 0.0):
    put(env, [cart, pole], [cart_vel, pole_vel])


@pytest.fixture(params=[MANAGER, DIRECT])
def task_id(request) -> str:
    return request.param


def test_one_unit_of_action_is_100_newton(task_id):
    env = make(task_id)
    env.step(torch.tensor([[1.0], [-0.5], [9.0]]))
    assert env.sim.ctrl[:, 0].tolist() == [100.0, -50.0, 900.0]
    # The model's motor stops at 400 N, so that both of these do the same.
    strong, stronger = make(task_id), make(task_id)
    for env, action in ((strong, 4.0), (stronger, 40.0)):
        env.step(torch.full((NUM_ENVS, 1), action))
    assert torch.equal(strong.sim.data.qvel, stronger.sim.data.qvel)


@pytest.mark.parametrize(("task_id", "scale"), [(MANAGER, STEP_S), (DIRECT, 1.0)])
def test_reward_of_a_state(task_id, scale):
    """The manager task lets the pole turn, and wraps its angle; the direct task ends the
    episode."""
    turned = 2.0 * math.pi + 0.3
    for state, expected in (
        ((0.5, 0.3, -2.0, 4.0), 1.0 - 0.3**2 - 0.01 * 2 - 0.005 * 4),
        ((3.5, 0.3, 2.0, -4.0), -2.0 - 0.3**2 - 0.01 * 2 - 0.005 * 4),
        ((0.0, turned, 0.0, 0.0), 1.0 - 0.3**2 if task_id == MANAGER else -2.0 - turned**2),
    ):
        env = make(task_id)
        place(env, *state)
        env._get_dones()
        assert env._get_rewards()[0].item() == pytest.approx(expected * scale, rel=1e-4), state


def test_where_episodes_end(task_id):
    env = make(task_id)
    assert env.step_dt == pytest.approx(STEP_S)
    turned = [(3.1, False)] if task_id == MANAGER else [(1.57, False), (1.58, True), (-1.58, True)]
    for cart, fails in ((2.99, False), (3.01, True), (-3.01, True)):
        place(env, cart=cart, pole=0.0)
        assert env._get_dones()[0].tolist() == [fails] * NUM_ENVS, cart
    for pole, fails in turned:
        place(env, cart=0.0, pole=pole)
        assert env._get_dones()[0].tolist() == [fails] * NUM_ENVS, pole


@pytest.mark.parametrize(("task_id", "steps"), [(MANAGER, 300), (DIRECT, 299)])
def test_how_long_episodes_last(task_id, steps):
    """Isaac Lab's direct tasks count the step to come: their episodes are a step shorter."""
    env = make(task_id)
    env.episode_length_buf[:] = steps - 2
    place(env, cart=0.0, pole=0.0)
    assert not env.step(torch.zeros(NUM_ENVS, 1))[3].any()
    assert env.step(torch.zeros(NUM_ENVS, 1))[3].all()


def test_forces_of_choices():
    table = {
        "Discrete": ([0, 1, 2], [0.0, -100.0, 100.0]),
        "MultiDiscrete": (
            [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]],
            [0.0, -50.0, -100.0, 0.0, 50.0, 100.0],
        ),
    }
    for space, (actions, forces) in table.items():
        task_id = f"Isaac-Cartpole-Showcase-Box-{space}-Direct-v0"
        env, pushed = make(task_id, num_envs=len(forces)), make(DIRECT, num_envs=len(forces))
        place(env, cart=0.0, pole=0.1)
        place(pushed, cart=0.0, pole=0.1)
        obs, reward, *_ = env.step(torch.tensor(actions))
        expected, expected_reward, *_ = pushed.step(torch.tensor(forces).unsqueeze(1) / 100.0)
        assert env.sim.ctrl[:, 0].tolist() == forces
        assert torch.equal(obs["policy"], expected["policy"])
        assert torch.equal(reward, expected_reward)
