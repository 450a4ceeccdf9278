"""Spot's rewards by hand, and its late motors."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab_tasks.locomotion.velocity.spot import rewards
from tests.envs.sliders import select
from tests.tasks.making import about_x, make, put

FEET = ["fl_foot", "fr_foot", "hl_foot", "hr_foot"]
TROT = [["fl_foot", "hr_foot"], ["fr_foot", "hl_foot"]]
GAIT = {"std": 0.1, "max_err": 0.2, "velocity_threshold": 0.5, "synced_feet_pair_names": TROT}


@pytest.fixture(scope="module")
def env() -> VectorEnv:
    """Return three robots in the air: one should move, one stands, one moves regardless."""
    calm = ("env.events.physics_material=null", "env.events.add_base_mass=null")
    made = make("Isaac-Velocity-Flat-Spot-v0", *calm)
    qpos, qvel = made.default_qpos.repeat(3, 1), torch.zeros(3, 18)
    qpos[:, 2], qvel[2, 0] = 3.0, 0.6
    put(made, qpos, qvel)
    term = made.command_manager.get_term("base_velocity")
    term.command.copy_(torch.tensor([[1.8, -2.4, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    return made


def feet(in_air: list[float], on_ground: list[float], **more: list[float]) -> SimpleNamespace:
    """Return the same times of the feet in three environments."""
    times = {"current_air_time": in_air, "current_contact_time": on_ground} | more
    rows = {name: torch.tensor([values] * 3) for name, values in times.items()}
    return SimpleNamespace(body_names=FEET, **rows)


def test_steps_up_to_the_mode_are_paid_and_standing_is_where_nothing_is_commanded(env):
    stepping = feet([0.1, 0.0, 0.4, 0.0], [0.0, 0.2, 0.0, 0.5])
    value = rewards.air_time_reward(env, 0.3, 0.5, stepping, select(env))
    assert value.tolist() == pytest.approx([0.3, -0.1 + 0.2 - 0.3 + 0.3, 0.3])


def test_tracking_is_an_exponential_of_the_error_and_more_at_speed(env):
    value = rewards.base_linear_velocity_reward(env, 1.0, 1.0, 0.5, select(env))
    # 3 m/s are commanded, 2 m/s beyond the ramp's start.
    assert value.tolist() == pytest.approx([math.exp(-3.0) * 2.0, 1.0, math.exp(-0.6)], rel=1e-4)
    turning = rewards.base_angular_velocity_reward(env, 2.0, select(env))
    assert turning.tolist() == pytest.approx([math.exp(-0.25), 1.0, 1.0])


def test_a_trot_is_diagonal_feet_together_and_the_pairs_in_turn(env):
    def walk(*times: list[float]) -> list[float]:
        return rewards.gait_reward(
            env, **GAIT, sensor_cfg=feet(*times), asset_cfg=select(env)
        ).tolist()

    assert walk([0.15, 0.0, 0.0, 0.15], [0.0, 0.15, 0.15, 0.0]) == pytest.approx([1.0, 0.0, 1.0])
    # hr_foot lands 0.1 s too early: off by 0.15 s in the air and 0.1 s on the ground, from fl_foot
    # and also from fr_foot and hl_foot.
    early = walk([0.15, 0.0, 0.0, 0.0], [0.0, 0.15, 0.15, 0.1])
    error = (0.15**2 + 0.1**2) + 2 * (0.15**2 + 0.1**2)
    assert early[0] == pytest.approx(math.exp(-error / 0.1))
    all_in_air = walk([9.0] * 4, [0.0] * 4)  # each difference counts 0.2 s at most
    assert all_in_air[0] == pytest.approx(math.exp(-8 * 0.2**2 / 0.1))


def test_a_gait_of_other_feet_is_refused(env):
    other = GAIT | {"synced_feet_pair_names": [["fl_foot", "tail"]]}
    with pytest.raises(ConfigurationError, match="two pairs of these feet: fl_foot, fr_foot"):
        rewards.gait_reward(env, **other, sensor_cfg=feet([], []))


def test_clearance_and_slip_are_of_feet_that_move(env):
    selected = select(env, body_names=".*_foot")
    heights = env.sim.data.xpos[2, selected.body_ids, 2]
    value = rewards.foot_clearance_reward(env, 0.05, 2.0, 2.5, selected)
    weight = math.tanh(2.0 * 0.6)
    assert value[0].item() == 1.0  # nothing moves
    error = float((heights - 2.5).square().sum())
    assert value[2].item() == pytest.approx(math.exp(-error * weight / 0.05), rel=1e-3)
    pressed = SimpleNamespace(force_norms=torch.tensor([[2.0, 2.0, 0.5, 0.5]] * 3))
    slip = rewards.foot_slip_penalty(env, 1.0, pressed, selected)
    assert slip.tolist() == pytest.approx([0.0, 0.0, 1.2], abs=1e-4)


def test_variances_are_those_of_times_up_to_half_a_second(env):
    times = feet([], [], last_air_time=[0.1, 0.5, 0.1, 0.9], last_contact_time=[0.5, 0.9, 0.2, 0.2])
    expected = (4 * 0.2**2 + 4 * 0.15**2) / 3
    assert rewards.air_time_variance_penalty(env, times).tolist() == pytest.approx([expected] * 3)


def test_penalties_are_lengths(env):
    qpos, qvel = env.default_qpos.repeat(3, 1), torch.zeros(3, 18)
    qpos[:, 2], qpos[:, 7], qpos[:, 9] = 3.0, 0.1 + 0.3, -1.5 - 0.4
    qvel[:, 2], qvel[:, 3], qvel[:, 4], qvel[:, 6] = 0.5, 0.2, -0.3, 2.0
    qpos[0, 3:7] = torch.tensor(about_x(0.2))
    put(env, qpos, qvel)
    whole = select(env)
    # The middle robot is to stand, and so is the last: none is faster than 0.5 m/s along the
    # ground.
    position = rewards.joint_position_penalty(env, 5.0, 0.5, whole)
    assert position.tolist() == pytest.approx([0.5, 2.5, 2.5], rel=1e-4)
    assert rewards.joint_velocity_penalty(env, whole).tolist() == pytest.approx([2.0] * 3)
    tilt = rewards.base_orientation_penalty(env, whole)
    assert tilt.tolist() == pytest.approx([math.sin(0.2), 0.0, 0.0], abs=1e-6)
    motion = rewards.base_motion_penalty(env, whole)
    assert motion[1].item() == pytest.approx(0.8 * 0.25 + 0.2 * 0.5, abs=2e-3)
    env.action_manager.action[:] = torch.tensor([3.0, -4.0] + [0.0] * 10)
    env.action_manager.prev_action[:] = 0.0
    assert rewards.action_smoothness_penalty(env).tolist() == pytest.approx([5.0] * 3)
