"""The quadcopter has Isaac Lab 2.3.2's numbers, and its flight and rewards follow by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from tests.tasks import making
from tests.tasks.making import put

make = partial(making.make, "Isaac-Quadcopter-Direct-v0")
ANALYTIC = "env.sim.backend=analytic"
STEP_S = 0.02
NUM_ENVS = 3
MASS = 0.028  # kg
GRAVITY = 9.81
WEIGHT = MASS * GRAVITY
HOVER = 2.0 / 1.9 - 1.0  # the action whose thrust is the weight
LEVEL = (1.0, 0.0, 0.0, 0.0)
HALF = math.sqrt(0.5)


def place(env, position=(0.0, 0.0, 1.0), turned=LEVEL, velocity=(0.0,) * 6, goal=None) -> None:
    """Put all environments into one state; velocities are linear (world), then angular (body)."""
    put(env, [*position, *turned], velocity)
    if goal is not None:
        env.goal[:] = torch.tensor(goal)


def fly(env, *action: float, steps: int = 1) -> None:
    for _ in range(steps):
        env.step(torch.tensor([action]).repeat(env.num_envs, 1))


@pytest.fixture(params=["mujoco", "analytic"])
def env(request) -> VectorEnv:
    return make(f"env.sim.backend={request.param}")


def test_where_episodes_end_and_how_long_they_last():
    env = make(ANALYTIC)
    for height, fails in ((0.09, True), (0.11, False), (1.99, False), (2.01, True)):
        place(env, (0.0, 0.0, height))
        assert env._get_dones()[0].tolist() == [fails] * NUM_ENVS, height
    env.episode_length_buf[:] = 497
    place(env)
    assert not env.step(torch.tensor([[HOVER, 0, 0, 0]] * NUM_ENVS))[3].any()
    assert env.step(torch.tensor([[HOVER, 0, 0, 0]] * NUM_ENVS))[3].all()


def test_thrust_of_the_weight_hovers_and_the_strongest_climbs(env):
    place(env)
    fly(env, HOVER, 0.0, 0.0, 0.0, steps=10)
    assert env.sim.data.qpos[:, 2].tolist() == pytest.approx([1.0] * NUM_ENVS, abs=1e-5)
    place(env)
    fly(env, 5.0, 0.0, 0.0, 0.0)  # as 1
    assert env.sim.ctrl[0, 0] == pytest.approx(1.9 * WEIGHT)
    climb = env.sim.data.qvel[0, 2].item()
    assert climb == pytest.approx(0.9 * GRAVITY * STEP_S, rel=1e-4)
    place(env)
    fly(env, -5.0, 0.0, 0.0, 0.0)  # as -1: no thrust
    assert env.sim.data.qvel[0, 2].item() == pytest.approx(-GRAVITY * STEP_S, rel=1e-4)


def test_a_moment_turns_the_drone_about_its_own_axis(env):
    moments = (16.571710e-6, 16.655602e-6, 29.261652e-6)
    assert env.sim.model.body_mass.sum() == pytest.approx(MASS)
    assert env.sim.model.body_inertia[1] == pytest.approx(moments)
    for axis, inertia in enumerate(moments):
        action = [HOVER, 0.0, 0.0, 0.0]
        action[1 + axis] = 0.1
        place(env, turned=(HALF, HALF, 0.0, 0.0))
        fly(env, *action)
        expected = [0.0, 0.0, 0.0]
        expected[axis] = 0.1 * 0.01 / inertia * STEP_S
        found = env.sim.data.qvel[0, 3:].tolist()
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6), axis


def test_reward_of_a_state():
    env = make(ANALYTIC)
    place(env, velocity=(1.0, 2.0, 2.0, 0.0, 3.0, 4.0), goal=(0.0, 0.8, 1.0))
    env._get_dones()
    # 0.02 (-0.05 * 9 - 0.01 * 25 + 15 (1 - tanh 1))
    expected = STEP_S * (-0.45 - 0.25 + 15.0 * (1.0 - math.tanh(1.0)))
    assert env._get_rewards()[0].item() == pytest.approx(expected, rel=1e-5)
    place(env, goal=(0.0, 0.0, 1.0))
    assert env._get_rewards()[0].item() == pytest.approx(STEP_S * 15.0, rel=1e-5)


def test_the_log_has_isaac_labs_names_and_the_final_distance():
    env = make(ANALYTIC)
    place(env, position=(0.0, 0.0, 1.0), goal=(0.0, 3.0, 1.0))
    env.sim.reset(torch.tensor([True, False, False]), torch.tensor([[0, 0, 0.05, 1, 0, 0, 0]] * 3))
    env.goal[0] = torch.tensor([0.0, 0.0, 2.05])
    info = env.step(torch.tensor([[HOVER, 0, 0, 0]] * NUM_ENVS))[4]
    assert info["num_ended"] == 1
    log = info["log"]
    assert log["Metrics/final_distance_to_goal"] == pytest.approx(2.0, rel=1e-4)
    assert (log["Episode_Termination/died"], log["Episode_Termination/time_out"]) == (1.0, 0.0)
    # One step of an episode that may last 10 s.
    expected = STEP_S * 15.0 * (1.0 - math.tanh(2.0 / 0.8)) / 10.0
    assert log["Episode_Reward/distance_to_goal"] == pytest.approx(expected, rel=1e-3)
    assert {"Episode_Reward/lin_vel", "Episode_Reward/ang_vel"} <= log.keys()


def test_a_model_without_its_motors_is_refused():
    with pytest.raises(ConfigurationError, match="thrust, roll, pitch, yaw"):
        make("env.sim.backend=mujoco", "env.scene.model='envlab_assets:robots/cartpole.xml'")
