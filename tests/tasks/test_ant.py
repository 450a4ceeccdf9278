"""Both Ants have Isaac Lab 2.3.2's numbers; observations and rewards follow by hand."""

from __future__ import annotations

import math

import pytest
import torch

from envlab import registry
from envlab.errors import ConfigurationError
from envlab_tasks.classic.locomotion.geometry import progress, to_target
from tests.tasks.running import STEP_S, act, make, observed, place, reward

MANAGER, DIRECT = "Isaac-Ant-v0", "Isaac-Ant-Direct-v0"
UPRIGHT = (0.0, 0.0, 0.5)


@pytest.fixture(params=[MANAGER, DIRECT])
def task_id(request) -> str:
    return request.param


def test_a_unit_of_action_is_7_5_newton_metres_and_motors_end_at_15(task_id):
    env = make(task_id)
    act(env, 1.0)
    assert env.sim.ctrl.unique().tolist() == [7.5]
    assert env.sim.model.actuator_ctrlrange.tolist() == [[-15.0, 15.0]] * 8
    assert env.sim.model.body_mass.sum() == pytest.approx(0.911, abs=1e-3)


def test_observation_of_a_state(task_id):
    env = make(task_id)
    joints = {"front_left_leg": math.radians(20.0), "right_back_foot": math.radians(100.0)}
    place(
        env,
        (3.0, 4.0, 0.6),
        yaw=math.pi / 2.0,  # faces y, so that the target, at x, is to its right
        joints=joints,
        velocity=[1.0, 2.0, 3.0, 0.1, 0.2, 0.3],
        joint_velocity=2.0,
    )
    act(env, 0.25)
    values = observed(env)
    distance = math.hypot(997.0, 4.0)
    expected = [
        *(0.6, 2.0, -1.0, 3.0, 0.1, 0.2, 0.3),
        *(math.pi / 2.0, 0.0, math.atan2(-4.0, 997.0) - math.pi / 2.0, 1.0, -4.0 / distance),
        *(0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),  # joint positions, in units of their limits
        *[0.4] * 8,  # their velocities, times 0.2
    ]
    assert values[:28] == pytest.approx(expected, abs=1e-5)
    assert values[-8:] == [0.25] * 8


def test_reward_of_a_step():
    """0.1 m nearer in a step of 1/60 s are 6 m/s."""
    at_limit = {"front_left_leg": math.radians(40.0)}
    state = {"before": (-0.1, 0.0), "joints": at_limit, "joint_velocity": 2.0}
    energy, action = 0.05 * 8 * 0.5 * 2.0, 0.005 * 8 * 0.25
    by_manager = 6.0 + 0.5 + 0.1 + 0.5 - energy - action - 0.1
    # Isaac Lab's direct tasks divide by the physics step, 1/120 s, so that progress counts double.
    direct = 12.0 + 0.5 + 0.1 + 0.5 - 0.2 * energy - action - 1.0
    for task_id, expected in ((MANAGER, by_manager * STEP_S), (DIRECT, direct)):
        env = make(task_id)
        place(env, UPRIGHT, **state)
        act(env, 0.5)
        assert reward(env) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_a_joint_beyond_its_limit_costs_no_more_than_one_at_it():
    env = make(MANAGER)
    costs = []
    for degrees in (39.5, 40.0, 44.0):  # 0.9875, 1 and 1.1 of the way; 0.99 is free
        place(env, UPRIGHT, joints={"front_left_leg": math.radians(degrees)})
        costs.append(0.5 + 0.1 + 0.5 - reward(env) / STEP_S)
    assert costs == pytest.approx([0.0, 0.1, 0.1], abs=1e-4)


def test_a_fall_ends_the_episode(task_id):
    env = make(task_id)
    for height, has_fallen in ((0.32, False), (0.30, True)):
        place(env, (0.0, 0.0, height))
        assert env._get_dones()[0].tolist() == [has_fallen] * 2
    expected = 0.6 * STEP_S if task_id == MANAGER else -2.0  # all but the reward for living
    assert reward(env) == pytest.approx(expected, abs=1e-5)


def test_progress_keeps_its_digits_far_from_the_target():
    def of(last: float, now: float) -> float:
        places = torch.tensor([[[last, 0.0, 0.5]], [[now, 0.0, 0.6]]])
        way = to_target(places[1], (1000.0, 0.0, 0.0))
        return progress(places[0], places[1], way, way.norm(dim=1)).item()

    assert of(-0.1, -0.1 + 2.0**-14) == pytest.approx(2.0**-14, rel=1e-3)
    assert of(900.0, 1010.0) == pytest.approx(90.0)
    assert of(1000.0, 1000.0) == 0.0


def test_gears_must_name_every_joint_once():
    for gears, message in (
        ({".*_foot": 15.0}, "'front_left_leg' matches 0 of the patterns"),
        ({".*": 15.0, ".*_foot": 1.0}, "'front_left_foot' matches 2 of the patterns"),
        ({".*": 15.0, "tail": 1.0}, "'tail' matches none of the joints front_left_leg"),
    ):
        rewards = registry.load_env_cfg(registry.get_task(MANAGER)).rewards
        rewards.energy.params["gear_ratio"] = gears
        with pytest.raises(ConfigurationError, match=message):
            make(MANAGER, rewards=rewards).step(torch.zeros(2, 8))


def test_episodes_start_within_the_joints_limits(task_id):
    """Isaac Lab clamps the positions it draws."""
    wide = {
        DIRECT: "env.initial_joint_pos_range=[-1.0,1.0]",
        MANAGER: "env.events.reset_robot_joints.params.position_range=[-1.0,1.0]",
    }
    env = make(task_id, wide[task_id], num_envs=64)
    positions = env.sim.data.qpos[:, 7:]
    low, high = torch.as_tensor(env.sim.model.jnt_range[1:], dtype=torch.float32).T
    assert ((positions >= low) & (positions <= high)).all()
    assert (positions == high).any()


def test_a_direct_episode_begins_with_the_last_action_of_the_one_before():
    env = make(DIRECT, "env.episode_length_s=0.05")
    env.step(torch.full((2, 8), 0.25))
    obs, _, _, truncated, _ = env.step(torch.full((2, 8), 0.5))
    assert truncated.all()
    assert (obs["policy"][:, -8:] == 0.5).all()
    assert (env.reset(seed=1)[0]["policy"][:, -8:] == 0.0).all()
