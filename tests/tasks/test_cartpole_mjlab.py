"""mjlab's Cartpoles move, see and earn as dm_control's; test_fidelity.py holds their numbers."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tasks.making import make, put

BALANCE, SWINGUP = "Mjlab-Cartpole-Balance", "Mjlab-Cartpole-Swingup"
STEP_S = 0.05


def test_the_model_has_dm_controls_figures():
    model = make(BALANCE).sim.model
    assert model.body("cart").mass[0] == 1.0
    assert model.body("pole_1").mass[0] == pytest.approx(0.1)
    # A capsule of 1 m between the centres of its ends, whose radius is 4.5 cm.
    assert model.body("pole_1").ipos.tolist() == pytest.approx([0.0, 0.0, 0.5])
    assert model.geom("pole_1").size[:2].tolist() == pytest.approx([0.045, 0.5])
    assert model.joint("slider").range.tolist() == [-1.8, 1.8]
    assert model.dof_damping.tolist() == [5e-4, 2e-6]
    assert model.jnt_solref[0].tolist() == [0.08, 1.0]
    assert model.actuator_gear[0, 0] == 10.0
    assert model.actuator_ctrlrange[0].tolist() == [-1.0, 1.0]
    assert not model.geom_contype.any()


def test_order_of_the_observation():
    env = make(BALANCE)
    put(env, [0.5, 0.2], [-1.0, 3.0])
    expected = [0.5, math.cos(0.2), math.sin(0.2), -1.0, 3.0]
    for values in env._get_observations().values():
        assert values[0].tolist() == pytest.approx(expected)


def test_an_action_of_1_pushes_by_10_newton_and_no_action_by_more():
    env = make(BALANCE)
    put(env, [0.0, 0.0])
    env.step(torch.tensor([[1.0], [4.0], [-0.5]]))
    speeds = env.sim.data.qvel[:, 0].tolist()
    # 1 kg and the pole, whose hinge the cart drags along: initially three quarters of 0.1 kg
    # resist.
    assert speeds[0] == speeds[1] == pytest.approx(10.0 / 1.025 * STEP_S, rel=1e-2)
    assert speeds[2] == pytest.approx(-0.5 * speeds[0], rel=1e-2)


def test_reward_of_a_state():
    env = make(BALANCE)
    states = torch.tensor([[0.0, 0.0], [2.0, math.pi / 2], [-1.0, 0.3]])
    everyone = torch.ones(3, dtype=torch.bool)
    env.step(torch.tensor([[0.0], [0.5], [3.0]]))
    env.sim.reset(everyone, states, torch.tensor([[0.0, 0.0], [0.0, -5.0], [0.0, 2.5]]))
    # At their margins of 2 m and 5 rad/s, gaussian tolerances are 0.1; at half of them 0.1^(1/4).
    quarter = (1.0 + 0.1**0.25) / 2.0
    expected = [
        1.0,
        0.5 * 0.55 * (4.0 + 1.0 - 0.9 * 0.25) / 5.0 * 0.55,
        (1.0 + math.cos(0.3)) / 2.0 * quarter * 0.8 * quarter,
    ]
    assert env._get_rewards().tolist() == pytest.approx([STEP_S * one for one in expected])


def test_a_swing_up_begins_with_a_hanging_pole_and_a_balance_with_one_that_stands():
    for task_id, angle, offset in ((SWINGUP, math.pi, 0.0), (BALANCE, 0.0, 0.1)):
        env = make(task_id, num_envs=64)
        cart, pole = env.sim.data.qpos.unbind(1)
        assert (pole - angle).abs().max() <= 0.034 + 1e-6
        assert pole.std() > 0.01
        assert cart.abs().max() <= offset + 1e-6
        assert (cart.std() > 0.03) == (offset > 0.0)
        assert env.sim.data.qvel.abs().max() <= 0.01
