"""T1's rewards by hand, the phase of its gait, and its pushes."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from envlab.envs import VectorEnv
from envlab_tasks.locomotion.velocity.t1 import rewards
from envlab_tasks.locomotion.velocity.t1.env_cfg import POSE_WEIGHTS
from envlab_tasks.locomotion.velocity.t1.gait_phase import foot_heights
from tests.envs.sliders import select
from tests.tasks import making
from tests.tasks.making import put

make = partial(making.make, "Playground-T1JoystickFlatTerrain-v0")


@pytest.fixture(scope="module")
def env() -> VectorEnv:
    """Return robots in the air: commanded left, to stand, and ahead; the last one moves."""
    made = make()
    qpos, qvel = made.default_qpos.repeat(3, 1), torch.zeros(3, 29)
    qpos[:, 2], qvel[2, :3] = 3.0, torch.tensor([0.5, 0.2, 0.0])
    put(made, qpos, qvel)
    command = made.command_manager.get_term("joystick").command
    command.copy_(torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.4]]))
    return made


def test_a_foot_rises_and_sinks_on_a_cubic():
    phase = torch.tensor([-math.pi, -math.pi / 2.0, 0.0, math.pi / 4.0])
    share = 0.75  # of the way up, at a quarter of the way down
    cubic = share**3 + 3.0 * share**2 * (1.0 - share)
    expected = [0.0, 0.06, 0.12, 0.12 * cubic]
    assert foot_heights(phase, 0.12).tolist() == pytest.approx(expected, abs=1e-6)


def test_phases_turn_half_a_turn_apart_and_rest_where_a_robot_should_stand():
    env = make(num_envs=64)
    term = env.command_manager.get_term("phase")
    assert (term.phase == torch.tensor([0.0, -math.pi])).all()
    stands = env.command_manager.get_term("joystick").is_standing_env.clone()
    assert 0 < stands.sum() < 20
    for _ in range(10):
        env.step(torch.zeros(64, 23))
    continues = ~stands & (env.episode_length_buf == 10)
    turned = term.phase[continues]
    frequency = turned[:, 0] / (2.0 * math.pi * 10 * 0.02)
    assert 1.25 <= float(frequency.min()) < 1.4 < 1.6 < float(frequency.max()) <= 1.75
    assert torch.allclose(turned[:, 0] - turned[:, 1], torch.tensor(math.pi), atol=1e-5)
    assert (foot_heights(term.phase[stands & (env.episode_length_buf == 10)], 0.12) < 1e-6).all()
    seen = env.obs_buf["policy"][:, -4:]
    assert torch.allclose(seen, torch.cat((term.phase.cos(), term.phase.sin()), dim=1))


def test_tracking_is_an_exponential_of_the_error_in_the_roots_frame(env):
    linear = rewards.track_linear_velocity(env, 0.25, "joystick", select(env))
    errors = [0.25, 0.0, 0.25 + 0.04]
    assert linear.tolist() == pytest.approx([math.exp(-e / 0.25) for e in errors], rel=1e-4)
    turning = rewards.track_angular_velocity(env, 0.25, "joystick", select(env))
    assert turning.tolist() == pytest.approx([1.0, 1.0, math.exp(-0.16 / 0.25)], rel=1e-4)


def test_air_time_from_a_fifth_to_half_a_second_is_paid_and_slipping_is_not(env):
    on_ground = torch.ones(3, 2, dtype=torch.bool)
    times = torch.tensor([[0.3, 0.9], [0.3, 0.3], [0.1, 0.0]])
    feet = SimpleNamespace(last_air_time=times, first_contact=on_ground, in_contact=on_ground)
    assert rewards.feet_air_time(env, "joystick", feet).tolist() == pytest.approx([0.4, 0.0, -0.1])
    slip = rewards.feet_slip(env, feet, select(env))
    assert slip.tolist() == pytest.approx([0.0, 0.0, 2.0 * math.hypot(0.5, 0.2)], rel=1e-4)


def test_poses_are_compared_with_the_default(env):
    qpos = env.default_qpos.repeat(3, 1)
    names = select(env).joint_names
    for name, angle in (("Left_Hip_Pitch", 1.0), ("Right_Shoulder_Pitch", 1.0), ("Waist", 0.5)):
        qpos[0, 7 + names.index(name)] += angle
    qpos[:2, 7 + names.index("Left_Hip_Yaw")] += 0.3
    put(env, qpos)
    pose = rewards.weighted_pose(env, POSE_WEIGHTS, select(env))
    assert pose.tolist() == pytest.approx([0.01 + 0.1 + 0.25 + 0.09, 0.09, 0.0], abs=1e-5)
    hips = select(env, joint_names="(Left|Right)_Hip_(Roll|Yaw)")
    sideways = rewards.sideways_deviation(env, "joystick", hips)
    assert sideways.tolist() == pytest.approx([0.3, 0.0, 0.0], abs=1e-5)


def test_feet_keep_their_heights_and_their_distance(env):
    qpos = env.default_qpos.repeat(3, 1)
    names = select(env).joint_names
    for side, sign in (("Left", -1.0), ("Right", 1.0)):
        qpos[1, 7 + names.index(f"{side}_Hip_Roll")] = sign * 0.1
    qpos[2, 3:7] = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])  # turned by 90 degrees
    put(env, qpos)
    soles = select(env, site_names=["left_foot", "right_foot"])
    close = rewards.feet_too_close(env, soles, select(env))
    away = (env.sim.data.site_xpos[1, soles.site_ids, 1]).diff().abs()
    assert close.tolist() == pytest.approx([0.0, 0.2 - float(away), 0.0], abs=1e-5)
    assert 0.02 < close[1] < 0.1
    phase = env.command_manager.get_term("phase").phase
    phase.copy_(torch.tensor([[-math.pi, -math.pi]] * 3))
    height = env.sim.data.site_xpos[:, soles.site_ids, 2]
    value = rewards.feet_phase(env, "phase", 0.12, soles)
    expected = torch.exp(-height.square().sum(dim=1) / 0.01)
    assert torch.allclose(value, expected)


def test_a_push_adds_a_horizontal_velocity_of_any_direction():
    env = make(num_envs=200)
    before = env.sim.data.qvel.clone()
    mask = torch.ones(200, dtype=torch.bool)
    mask[0] = False
    stream = env.random.stream("test")
    rewards.push_horizontally(env, mask, stream, (0.1, 1.0), select(env))
    change = env.sim.data.qvel - before
    speed = change[1:, :2].norm(dim=1)
    assert 0.1 <= float(speed.min()) < 0.2 < 0.9 < float(speed.max()) <= 1.0
    assert not change[0].any()
    assert not change[:, 2:].any()
    ahead = (change[1:, :2] > 0.0).float().mean(dim=0)
    assert ahead.tolist() == pytest.approx([0.5, 0.5], abs=0.15)
