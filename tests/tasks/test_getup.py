"""The rewards of getting up by hand, at a standing and at a lying robot."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from envlab_tasks.locomotion.getup import terms
from envlab_tasks.locomotion.playground_env import PlaygroundEnv
from tests.envs.sliders import select
from tests.tasks import making
from tests.tasks.making import put

FEW_FALLS = "+env.events.reset_base.params.num_states=8"
make = partial(making.make, "Playground-Go1Getup-v0", FEW_FALLS)
IMU_Z = -0.00617
"""Height of the IMU in the trunk's frame, in m."""


@pytest.fixture(scope="module")
def env() -> PlaygroundEnv:
    """Return robots that stand, lie on their backs, and lean by 6 degrees at full height."""
    made = make()
    qpos = made.default_qpos.repeat(3, 1)
    qpos[:, 2] = torch.tensor([0.275 - IMU_Z, 0.1, 0.3])
    qpos[1, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    half = math.radians(3.0)
    qpos[2, 3:7] = torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0])
    qpos[0, 7] += 0.4
    qvel = torch.zeros(3, 18)
    qvel[0, 6], qvel[0, 7] = 2.0 * math.pi + 1.0, -2.0 * math.pi - 2.0
    put(made, qpos, qvel)
    return made


def test_rewards_of_a_robot_that_stands_lies_or_leans(env):
    whole, imu = select(env), select(env, site_names="imu")
    lean = 2.0 - 2.0 * math.cos(math.radians(6.0))  # the squared distance of two unit vectors
    upright = terms.orientation(env, whole)
    assert upright.tolist() == pytest.approx([1.0, math.exp(-8.0), math.exp(-2.0 * lean)], rel=1e-4)
    assert terms.is_upright(env, whole).tolist() == [True, False, False]
    height = terms.torso_height(env, 0.275, imu)
    expected = [math.exp(0.275) - 1.0, math.exp(0.1 - IMU_Z) - 1.0, math.exp(0.275) - 1.0]
    assert height.tolist() == pytest.approx(expected, rel=1e-4)
    posture = terms.posture(env, whole)  # a hip is 0.4 rad away
    assert posture.tolist() == pytest.approx([math.exp(-0.08), 0.0, 0.0], rel=1e-4)
    env.action_manager.action.fill_(0.5)
    still = terms.stand_still(env, 0.275, imu)
    assert still.tolist() == pytest.approx([math.exp(-0.5 * 12 * 0.25), 0.0, 0.0], rel=1e-4)
    assert terms.is_standing(env, 0.275, imu).tolist() == [True, False, False]
    assert terms.is_standing(env, 0.281, imu).tolist() == [False] * 3  # 6 mm too low


def test_penalties_are_of_speed_torques_and_the_last_three_actions(env):
    assert terms.joint_speed(env, select(env)).tolist() == pytest.approx([5.0, 0.0, 0.0], rel=1e-4)
    force = torch.tensor([[3.0, -4.0] + [0.0] * 10])
    pressed = SimpleNamespace(sim=SimpleNamespace(data=SimpleNamespace(actuator_force=force)))
    assert terms.torques(pressed, select(env)).tolist() == [5.0 + 7.0]
    manager = env.action_manager
    for values, number in ((manager.action, 1.0), (manager.prev_action, 0.5)):
        values.zero_()[:, 0] = number
    env.older_action.zero_()[:, 0] = 0.25
    assert terms.action_rate(env).tolist() == pytest.approx([0.5**2 + 0.25**2] * 3)
