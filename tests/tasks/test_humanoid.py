"""Both Humanoids' bodies and rewards; terms shared with Ant are tested for Ant."""

from __future__ import annotations

import math

import pytest

from tests.tasks.running import STEP_S, act, make, place, reward

MANAGER, DIRECT = "Isaac-Humanoid-v0", "Isaac-Humanoid-Direct-v0"
STANDING = (0.0, 0.0, 1.34)
GEARS = {
    **{f"lower_waist:{i}": 67.5 for i in range(2)},
    "pelvis": 67.5,
    **{f"{side}_upper_arm:{i}": 67.5 for side in ("left", "right") for i in range(2)},
    **{f"{side}_lower_arm": 45.0 for side in ("left", "right")},
    **{f"{side}_thigh:{i}": (45.0, 135.0, 45.0)[i] for side in ("left", "right") for i in range(3)},
    **{f"{side}_shin": 90.0 for side in ("left", "right")},
    **{f"{side}_foot:{i}": 22.5 for side in ("left", "right") for i in range(2)},
}


@pytest.fixture(params=[MANAGER, DIRECT])
def task_id(request) -> str:
    return request.param


def test_actions_are_shares_of_each_motors_strength(task_id):
    env = make(task_id)
    act(env, 0.5)
    model = env.sim.model
    joints = [model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu)]
    assert dict(zip(joints, env.sim.ctrl[0].tolist(), strict=True)) == {
        name: 0.5 * gear for name, gear in GEARS.items()
    }
    limits = dict(zip(joints, model.actuator_ctrlrange[:, 1].tolist(), strict=True))
    assert limits == GEARS


def test_reward_of_a_step():
    """0.05 m nearer in a step of 1/60 s are 3 m/s; gears count as shares of 135 N m."""
    joints = dict.fromkeys(GEARS, 0.0) | {"left_foot:0": math.radians(50.0)}  # at its limit
    state = {"before": (-0.05, 0.0), "joints": joints, "joint_velocity": 2.0}
    shares = sum(GEARS.values()) / 135.0
    # Straight knees cost nothing: they are at 158 / 162 = 0.975 of the way, and 0.98 is free.
    costs = 0.01 * 21 * 0.25 + 0.005 * shares * 0.5 * 2.0 + 0.25 * 22.5 / 135.0
    by_manager = 3.0 + 2.0 + 0.1 + 0.5 - costs
    costs = 0.01 * 21 * 0.25 + 0.05 * 21 * 0.5 * 2.0 * 0.1 + 1.0
    # Isaac Lab's direct tasks divide by the physics step, 1/120 s, so that progress counts double.
    direct = 6.0 + 2.0 + 0.1 + 0.5 - costs
    for task_id, expected in ((MANAGER, by_manager * STEP_S), (DIRECT, direct)):
        env = make(task_id)
        place(env, STANDING, **state)
        act(env, 0.5)
        assert reward(env) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_a_fall_ends_the_episode(task_id):
    env = make(task_id)
    for height, has_fallen in ((0.81, False), (0.79, True)):
        place(env, (0.0, 0.0, height))
        assert env._get_dones()[0].tolist() == [has_fallen] * 2
    assert reward(env) == pytest.approx(0.6 * STEP_S if task_id == MANAGER else -1.0, abs=1e-5)
