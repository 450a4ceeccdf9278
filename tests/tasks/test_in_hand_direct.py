"""Isaac Lab's direct tasks of hands: results that follow from their numbers by hand."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab_tasks.in_hand.repose_cube_direct.in_hand_env import InHandEnv
from tests.envs.sliders import assert_spans
from tests.tasks.making import about_x, make, put

ALLEGRO = "Isaac-Repose-Cube-Allegro-Direct-v0"
SHADOW = "Isaac-Repose-Cube-Shadow-Direct-v0"
LEAP = "Envlab-Repose-Cube-Leap-Direct-v0"
OPENAI = "Isaac-Repose-Cube-Shadow-OpenAI-FF-Direct-v0"
NOISES = ("action_noise_model", "observation_noise_model")
HANDS = {ALLEGRO: (16, 16, 4), SHADOW: (24, 20, 5), LEAP: (16, 16, 4)}
"""Joints, actions and fingertips by task."""
STILL = 1.0, 0.0, 0.0, 0.0


def place(env: InHandEnv, offset=(0.0, 0.0, 0.0), quat=STILL, turning=(0.0, 0.0, 0.0)) -> None:
    """Put the cubes of all environments somewhere, from where they start, over a default pose."""
    qpos = env.default_qpos[0].clone()
    qpos[-7:-4] += torch.tensor(offset)
    qpos[-4:] = torch.tensor(quat)
    put(env, qpos, [0.0] * (env.sim.model.nv - 3) + [*turning])


def judge(env: InHandEnv) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a step's rewards, terminations and time-outs for the current state."""
    ends = env._get_dones()
    return (env._get_rewards(), *ends)


@pytest.mark.parametrize("task_id", HANDS)
def test_rewards_of_a_state(task_id):
    env = make(task_id)
    place(env, offset=(0.0, 0.03, -0.04), quat=about_x(0.9))  # 3 cm from its place
    env.goal[:] = torch.tensor(STILL)
    env._pre_physics_step(torch.full_like(env.actions, 0.5))
    tolerance, penalty = env.cfg.success_tolerance, -0.0002 * 0.25 * env.actions.shape[1]
    # -10 0.03 + 1 / (0.9 + 0.1)
    assert judge(env)[0].tolist() == pytest.approx([0.7 + penalty] * 3, rel=1e-4)
    env.goal[1] = torch.tensor(about_x(0.9 - 0.5 * tolerance))  # reached
    expected = -0.3 + 1.0 / (0.5 * tolerance + 0.1) + 250.0 + penalty
    assert judge(env)[0].tolist() == pytest.approx([0.7 + penalty, expected, 0.7 + penalty])


def tips_of(model: mujoco.MjModel) -> list[str]:
    names = [model.body(i).name for i in range(model.nbody)]
    return [name for name in names if name.endswith(("_link_3", "distal", "_ds"))]


def test_a_goal_that_is_reached_is_counted_and_followed_by_another():
    env = make(ALLEGRO)
    place(env)
    env.goal[:] = torch.tensor(STILL)
    env.goal[2] = torch.tensor(about_x(1.0))  # which the last environment does not reach
    before = env.goal.clone()
    judge(env)
    assert env.successes.tolist() == [1.0, 1.0, 0.0]
    assert env.success.tolist() == [0.5, 0.5, 0.0]  # one of two, and none of one
    assert (env.goal != before).any(dim=1).tolist() == [True, True, False]
    judge(env)
    assert env.successes.tolist() == [1.0, 1.0, 0.0]


def test_the_cube_is_lost_at_24_centimetres_from_its_place():
    env = make(ALLEGRO, "env.fall_penalty=-50")
    for away, lost in ((0.235, False), (0.245, True)):
        place(env, offset=(0.0, -away, -0.04), quat=about_x(0.9))
        env.goal[:] = torch.tensor(STILL)
        rewards, terminated, truncated = judge(env)
        assert terminated.tolist() == [lost] * 3
        assert not truncated.any()
        expected = -10.0 * away + 1.0 - 50.0 * lost
        assert rewards.tolist() == pytest.approx([expected] * 3, rel=1e-4)


def test_goals_give_more_time_and_enough_of_them_end_an_episode():
    env = make(ALLEGRO, "env.max_consecutive_success=2")
    place(env)
    env.goal[:] = torch.tensor(about_x(1.0))
    env.goal[0] = torch.tensor(STILL)
    last = env.max_episode_length - 1
    env.episode_length_buf = torch.tensor([last, 7, last])
    env.successes[1] = 2.0
    _, terminated, truncated = judge(env)
    assert not terminated.any()
    assert truncated.tolist() == [False, True, True]
    assert env.episode_length_buf.tolist() == [0, 7, last]


@pytest.mark.parametrize("task_id", HANDS)
def test_the_observation_of_the_policy(task_id):
    joints, actions, tips = HANDS[task_id]
    env = make(task_id)
    place(env, quat=about_x(0.7), turning=(0.0, 5.0, 0.0))
    env.goal[:] = torch.tensor(about_x(0.3))
    obs = env._get_observations()["policy"][0]
    assert len(obs) == 2 * joints + 24 + 13 * tips + actions
    model, data = env.sim.model, env.sim.data_of(0)
    first, (low, high) = float(env.default_qpos[0, 0]), model.jnt_range[0]
    assert obs[0] == pytest.approx((2.0 * first - high - low) / (high - low), abs=1e-5)
    start = 2 * joints
    cube = env.default_qpos[0, -7:-4]
    assert torch.equal(obs[start : start + 3], cube)
    assert obs[start + 3 : start + 7].tolist() == pytest.approx(about_x(0.7), abs=1e-6)
    # About the cube's y axis, which is 0.7 rad from the world's.
    turning = [0.0, 0.2 * 5.0 * math.cos(0.7), 0.2 * 5.0 * math.sin(0.7)]
    assert obs[start + 10 : start + 13].tolist() == pytest.approx(turning, abs=1e-5)
    assert torch.equal(obs[start + 13 : start + 16], cube - torch.tensor([0.0, 0.0, 0.04]))
    assert obs[start + 16 : start + 20].tolist() == pytest.approx(about_x(0.3), abs=1e-6)
    assert obs[start + 20 : start + 24].tolist() == pytest.approx(about_x(0.4), abs=1e-6)
    places = torch.tensor([data.body(name).xpos.tolist() for name in tips_of(model)]).flatten()
    assert torch.allclose(obs[start + 24 : start + 24 + 3 * tips], places, atol=1e-6)
    # Fingertips' velocities are those of their centres of mass.
    env.step(torch.ones_like(env.actions))
    seen = env._get_observations()["policy"][0][-actions - 6 * tips : -actions].view(tips, 6)
    data = env.sim.data_of(0)
    for row, name in zip(seen, tips_of(model), strict=True):
        jacobian, turn = torch.zeros(2, 3, model.nv, dtype=torch.float64)
        mujoco.mj_jacBodyCom(model, data, jacobian.numpy(), turn.numpy(), model.body(name).id)
        qvel = torch.tensor(data.qvel)
        expected = torch.cat((jacobian @ qvel, turn @ qvel)).float()
        assert expected.abs().max() > 0.1
        assert torch.allclose(row, expected, atol=1e-4)


def test_environments_differ_and_stay_as_they_are_for_720_steps():
    env = make(OPENAI, num_envs=64)
    model, params = env.sim.model, env.sim.params
    mass = params.body_mass[:, model.body("object/object").id] / 0.216
    assert_spans(mass, 0.5, 1.5)
    assert_spans(params.actuator_gainprm[:, 5, 0], 0.75, 1.5, margin=0.15)
    away = params.jnt_range[:, :24] - torch.tensor(model.jnt_range[:24], dtype=torch.float32)
    assert away.std() == pytest.approx(0.01, rel=0.1)
    before, state = mass.clone(), env.state()
    for age in state["event_manager"]["ages"].values():
        age[:2] = torch.tensor([719, 720])
    env.set_state(state)
    env.reset(options={"reset_mask": torch.arange(64) < 2})
    changed = params.body_mass[:, model.body("object/object").id] / 0.216 != before
    assert changed.nonzero().flatten().tolist() == [1]
