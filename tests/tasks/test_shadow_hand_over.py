"""Two Shadow hands pass a ball: results that follow from Isaac Lab's numbers by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from envlab_tasks.in_hand.shadow_hand_over.shadow_hand_over_env import ShadowHandOverEnv
from tests.tasks import making
from tests.tasks.making import about_x, put

AGENTS = ["right_hand", "left_hand"]
GOAL = torch.tensor([0.0, -0.64, 0.54])
make = partial(making.make, "Isaac-Shadow-Hand-Over-Direct-v0")


def place(env: ShadowHandOverEnv, ball, quat=(1.0, 0.0, 0.0, 0.0), velocity=(0.0,) * 6) -> None:
    """Put the balls of all environments somewhere, over default poses."""
    qpos = env.default_qpos[0].clone()
    qpos[-7:-4], qpos[-4:] = torch.as_tensor(ball), torch.tensor(quat)
    put(env, qpos, [0.0] * (env.sim.model.nv - 6) + [*velocity])


def act(env: ShadowHandOverEnv, right: float, left: float) -> dict[str, torch.Tensor]:
    values = zip(AGENTS, (right, left), strict=True)
    return {agent: torch.full((env.num_envs, 20), value) for agent, value in values}


def test_both_hands_earn_by_the_balls_distance_from_its_goal():
    env = make()
    place(env, GOAL + torch.tensor([0.0, 0.03, 0.04]))  # 5 cm
    for rewards in env._get_rewards().values():
        assert rewards.tolist() == pytest.approx([2.0 * math.exp(-1.0)] * 3, rel=1e-4)


def test_a_ball_that_falls_ends_the_episode_of_both():
    env = make()
    for height, ends in ((0.241, False), (0.239, True)):
        place(env, (0.0, -0.5, height))
        for flags, expected in zip(env._get_dones(), (ends, False), strict=True):
            assert [flags[agent].tolist() for agent in AGENTS] == [[expected] * 3] * 2


def test_the_observations_of_the_hands_and_of_a_central_critic():
    env = make()
    place(env, (0.01, -0.4, 0.6), about_x(0.7), (1.0, 2.0, 3.0, 0.0, 5.0, 0.0))
    env._pre_physics_step(act(env, 0.3, -0.6))
    env.goal[:] = torch.tensor(about_x(0.3))
    seen, state = env._get_observations(), env._get_states()[0]
    right, left = (seen[agent][0] for agent in AGENTS)
    assert (len(right), len(left), len(state)) == (157, 157, 290)
    assert torch.equal(state, torch.cat((right[:133], left)))  # each hand, then their shared part
    assert torch.equal(right[133:], left[133:])
    # Where the ball is, how it is turned, how it moves; about its y axis, 0.7 rad from the world's.
    turning = [0.0, 0.2 * 5.0 * math.cos(0.7), 0.2 * 5.0 * math.sin(0.7)]
    ball = [0.01, -0.4, 0.6, *about_x(0.7), 1.0, 2.0, 3.0, *turning]
    goal = [*GOAL.tolist(), *about_x(0.3), *about_x(0.4)]
    assert right[133:].tolist() == pytest.approx([*ball, *goal], abs=1e-5)
    assert (right[113] - left[113]).item() == pytest.approx(0.9)  # their own actions
    assert torch.equal(right[:24], left[:24])  # joints, which are alike
    # Tips: half a turn about the middle between the hands takes one hand to the other.
    tips = right[48:63].view(5, 3)
    mirrored = torch.tensor([0.0, -1.0, 0.0]) + tips * torch.tensor([-1, -1, 1])
    assert torch.allclose(left[48:63].view(5, 3), mirrored)
    data = env.sim.data_of(0)
    for row, name in zip(tips, ("ff", "mf", "rf", "lf", "th"), strict=True):
        place_of = data.body(f"right_robot0_{name}distal").xpos
        assert row.tolist() == pytest.approx(place_of.tolist(), abs=1e-6)


def test_ended_episodes_report_the_balls_distance_from_its_goal():
    env = make()
    place(env, GOAL + torch.tensor([0.0, 0.0, 0.1]))
    place_of = env.sim.data.qpos.clone()
    place_of[1:, -5] = 0.1  # two have fallen, to 44 cm below it
    put(env, place_of)
    ended = env._get_dones()[0]["left_hand"]
    assert ended.tolist() == [False, True, True]
    log = env._reset_envs(ended, 2)
    assert float(log["dist_goal"]) == pytest.approx(0.44, abs=1e-5)
    assert float(log["dist_reward"]) == pytest.approx(2.0 * math.exp(-8.8), rel=1e-3)
