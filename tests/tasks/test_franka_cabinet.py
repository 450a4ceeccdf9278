"""Isaac-Franka-Cabinet-Direct-v0: numbers that follow from Isaac Lab's formulas by hand."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from envlab.registry import get_task, scripted_policy
from envlab_tasks.manipulation.franka_cabinet.franka_cabinet_env import FrankaCabinetEnv
from tests.tasks import making
from tests.tasks.making import put

STEP_S = 1.0 / 60.0
TASK = "Isaac-Franka-Cabinet-Direct-v0"
make = partial(making.make, TASK)


def place(env: FrankaCabinetEnv, opening: float) -> None:
    """Put the arm into its default pose, and the drawer somewhere."""
    qpos = env.default_qpos.repeat(env.num_envs, 1)
    qpos[:, 9] = opening
    put(env, qpos)


def test_where_hand_and_handle_are():
    env = make()
    place(env, 0.1)
    data = env.sim.data_of(0)
    # The drawer's frame is 5.15 cm before the cabinet's, 1 m away and turned to the robot.
    expected = [1.0 - 0.0515 - 0.1 - 0.3, -0.01, 0.4 + 0.3172]
    assert env.goal()[0].tolist() == pytest.approx(expected, abs=1e-5)
    left, right = (data.body(f"panda_{side}finger").xpos for side in ("left", "right"))
    middle = torch.tensor((left + right) / 2.0, dtype=torch.float32)
    away = env.grasp()[0] - middle
    assert away.norm() == pytest.approx(0.04, abs=1e-5)
    sideways = torch.tensor(data.body("panda_link7").xmat.reshape(3, 3)[:, 1], dtype=torch.float32)
    assert torch.allclose(away, 0.04 * sideways, atol=1e-5)
    obs = env._get_observations()["policy"][0]
    # In Isaac Lab's world, half a turn from here.
    there = torch.tensor([-1.0, -1.0, 1.0]) * (env.goal() - env.grasp())[0]
    assert torch.allclose(obs[18:21], there)
    assert obs[21:].tolist() == pytest.approx([0.1, 0.0], abs=1e-6)
    low, high = env.sim.model.joint("panda_joint4").range
    assert obs[3].item() == pytest.approx(2.0 * (-2.239 - low) / (high - low) - 1.0, abs=1e-5)


def test_rewards_of_a_state(monkeypatch: pytest.MonkeyPatch):
    env = make()
    env._pre_physics_step(torch.full((3, 9), 3.0))  # cut to 1
    place(env, 0.25)
    goal = env.goal()
    place_at = goal + torch.tensor([[0.01, 0.0, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.03]])
    monkeypatch.setattr(env, "grasp", lambda: place_at)
    near = [2.0 / (1.0 + 1e-4) ** 2, 1.0 / 1.25**2, 1.0 / (1.0 + 9e-4) ** 2]
    assert env.nearness(goal).tolist() == pytest.approx(near, rel=1e-4)
    data = env.sim.data_of(0)
    heights = [data.body(f"panda_{side}finger").xpos[2] for side in ("left", "right")]
    outside = min(heights[0] - goal[0, 2].item(), 0.0) + min(goal[0, 2].item() - heights[1], 0.0)
    assert env.straddling(goal)[0].item() == pytest.approx(outside, abs=1e-5)
    hand = data.body("panda_leftfinger").xmat.reshape(3, 3)
    # The cabinet is turned to the robot: into it is +x, and up is +z.
    inward, upward = hand[0, 2], hand[2, 1]
    turned = 0.5 * (inward * abs(inward) + upward * abs(upward))
    assert env.alignment()[0].item() == pytest.approx(turned, abs=1e-5)
    # Two of three bonuses, at 25 cm.
    rest = 1.5 * turned + 10.0 * 0.25 + 2.0 * outside - 0.05 * 9.0 + 2 * 0.25
    expected = [1.5 * one + rest for one in near]
    assert env._get_rewards().tolist() == pytest.approx(expected, abs=1e-4)


def test_a_drawer_that_is_out_by_39_centimetres_is_success():
    env = make()
    for opening, done in ((0.385, False), (0.395, True)):
        place(env, opening)
        assert env._get_dones()[0].tolist() == [done] * 3
        assert env.success.tolist() == [float(done)] * 3


def test_the_policy_by_hand_pulls_every_drawer_out_within_an_episode():
    env = make(num_envs=6, seed=1)
    policy = scripted_policy(get_task(TASK))(env)
    env.reset()
    is_out = torch.zeros(6, dtype=torch.bool)
    for _ in range(env.max_episode_length - 1):
        _, _, terminated, truncated, info = env.step(policy.act())
        assert torch.equal(terminated, info["success"].bool())
        is_out |= terminated
        if is_out.all():
            break
        assert not (truncated & ~is_out).any()
    assert is_out.all()


def test_the_policy_by_hand_acts_by_what_a_student_observes():
    env = make()
    policy = scripted_policy(get_task(TASK))(env)
    env.reset()
    first = policy.act()
    env.targets += 0.3  # which no observation has
    assert torch.equal(policy.act(), first)
    assert first.abs().amax() <= 1.0
    for _ in range(20):
        env.step(first)
    assert not torch.allclose(policy.act(), first, atol=0.01)
