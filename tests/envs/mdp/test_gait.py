"""Terms over a robot's steps, by hand: forces, heights and speeds are given, not simulated."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.math import quat_from_euler_xyz
from envlab.envs.mdp import gait
from envlab.state import restore, save
from tests.envs.sliders import select
from tests.tasks.making import make

FLAT_G1 = "Mjlab-Velocity-Flat-Unitree-G1"
MOVING, STANDING, TURNING = [0.3, -0.4, 0.1], [0.0, 0.03, 0.01], [0.0, 0.03, -0.04]
"""Commands: 0.6, 0.04 and 0.07 in all."""
ON = {"command_name": "twist", "command_threshold": 0.05}


def commanded(*commands: list[float], **parts) -> SimpleNamespace:
    """Return an environment that has only commands and the given parts."""
    values = torch.tensor(commands)
    manager = SimpleNamespace(get_command=lambda name: values, num_changes=0)
    return SimpleNamespace(
        command_manager=manager,
        once=lambda key, compute, version=0: compute(),
        derived={},
        constants={},
        device="cpu",
        **parts,
    )


def test_velocities_off_the_command_in_any_direction_cost():
    data = SimpleNamespace(
        qpos=torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]]),
        qvel=torch.tensor([[0.4, -0.4, 0.2, 0.3, 0.0, 0.5]]),
    )
    places = {"root_quat": slice(3, 7), "root_lin_vel": slice(0, 3), "root_ang_vel": slice(3, 6)}
    robot = SimpleNamespace(root_body=1, **places)
    env = commanded(MOVING, sim=SimpleNamespace(data=data, num_changes=0, num_pushes=0))
    linear = mdp.track_linear_velocity(env, 0.5, "twist", robot)
    assert linear.item() == pytest.approx(math.exp(-(0.1**2 + 0.2**2) / 0.25))
    turning = mdp.track_angular_velocity(env, math.sqrt(0.5), "twist", robot)
    assert turning.item() == pytest.approx(math.exp(-(0.3**2 + 0.4**2) / 0.5))


def test_uprightness_is_of_the_named_body():
    angle = torch.tensor(0.4)
    quat = torch.stack([torch.tensor([1.0, 0, 0, 0]), quat_from_euler_xyz(angle, angle * 0, angle)])
    env = SimpleNamespace(sim=SimpleNamespace(data=SimpleNamespace(xquat=quat.unsqueeze(0))))
    torso = SimpleNamespace(body_ids=slice(1, 2))
    expected = math.exp(-(math.sin(0.4) ** 2) / 0.2)
    assert mdp.upright(env, math.sqrt(0.2), torso).item() == pytest.approx(expected)


def test_uprightness_is_against_the_grounds_slope_where_it_is_seen(monkeypatch):
    env = make("Mjlab-Velocity-Rough-Unitree-Go1", num_envs=2)
    angle = torch.tensor([0.3, 0.3])
    qpos = env.sim.data.qpos.clone()
    qpos[:, 3:7] = quat_from_euler_xyz(0.0 * angle, angle, 0.0 * angle)  # pitched down
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    normals = torch.tensor([[math.sin(0.3), 0.0, math.cos(0.3)], [0.0, 0.0, 1.0]])  # downhill, flat
    monkeypatch.setattr(gait, "ground_normal", lambda env, points: normals)
    trunk = select(env, body_names="trunk")
    reward = mdp.upright(
        env, math.sqrt(0.2), trunk, sensor_cfg=env.sensor_manager.get_term("slope")
    )
    assert reward.tolist() == pytest.approx([1.0, math.exp(-(math.sin(0.3) ** 2) / 0.2)])


def test_postures_are_narrow_where_the_robot_should_stand():
    joints = SimpleNamespace(joint_names=["hip", "knee"], qpos_ids=slice(0, 2))
    data = SimpleNamespace(qpos=torch.tensor([[0.1, 0.5]] * 3))
    parts = {"sim": SimpleNamespace(data=data), "encoder_bias": None}
    default = torch.tensor([[0.0, 0.3]] * 3)
    env = commanded(STANDING, MOVING, [2.0, 0.0, 0.0], default_qpos_rows=default, **parts)
    widths = {".*": 0.1}, {"hip": 0.2, "knee": 0.4}, {".*": 1.0}
    reward = mdp.variable_posture(env, "twist", *widths, walking_threshold=0.05, asset_cfg=joints)
    expected = [(1.0 + 4.0) / 2, (0.25 + 0.25) / 2, (0.01 + 0.04) / 2]
    assert reward.tolist() == pytest.approx([math.exp(-error) for error in expected])


def test_body_and_momentum_penalties_are_squares():
    data = SimpleNamespace(
        cvel=torch.tensor([[[0.0] * 6, [0.3, -0.4, 9.0, 1.0, 1.0, 1.0]]]),
        sensordata=torch.tensor([[7.0, 1.0, 2.0, -2.0]]),
    )
    env = SimpleNamespace(sim=SimpleNamespace(data=data))
    torso = SimpleNamespace(body_ids=slice(1, 2))
    assert mdp.body_angular_velocity_penalty(env, torso).item() == pytest.approx(0.25)
    momentum = SimpleNamespace(sensor_ids=slice(1, 4))
    assert mdp.angular_momentum_penalty(env, momentum).item() == pytest.approx(9.0)


def test_steps_cost_by_height_slip_and_impact_while_moving():
    feet = SimpleNamespace(
        heights=torch.tensor([[0.1, 0.04]] * 3),
        speeds=torch.tensor([[2.0, 0.5]] * 3),
        landing_heights=torch.tensor([[0.15, 0.0]] * 3),
    )
    touches = SimpleNamespace(
        first_contact=torch.tensor([[True, False]] * 3),
        in_contact=torch.tensor([[False, True]] * 3),
        net_forces_w=torch.tensor([[[-3.0, 0.0, 4.0], [0.0, 0.0, 90.0]]] * 3),
        current_air_time=torch.tensor([[0.2, 0.0]] * 3),
    )
    env, both = commanded(MOVING, STANDING, TURNING), {"sensor_cfg": touches, "feet_cfg": feet}
    for cost, expected in (
        (mdp.feet_clearance(env, 0.1, feet_cfg=feet, **ON), 0.06 * 0.5),
        (mdp.feet_swing_height(env, 0.1, **both, **ON), 0.25),
        (mdp.feet_slip(env, **both, **ON), 0.25),
        (mdp.soft_landing(env, sensor_cfg=touches, **ON), 5.0),
    ):
        assert cost.tolist() == pytest.approx([expected, 0.0, expected])
    seen = mdp.foot_contact_forces(env, touches)[0]
    assert seen.tolist() == pytest.approx([-math.log(4), 0, math.log(5), 0, 0, math.log(91)])
    assert mdp.foot_contact(env, touches)[0].tolist() == [0.0, 1.0]
    assert mdp.foot_air_time(env, touches)[0].tolist() == pytest.approx([0.2, 0.0])
    assert mdp.foot_height(env, feet) is feet.heights


def test_a_foot_counts_while_it_has_been_in_the_air_within_bounds():
    touches = SimpleNamespace(
        current_air_time=torch.tensor([[0.2, 0.3], [0.2, 0.0], [0.05, 0.5], [0.6, 0.1], [0.2, 0.3]])
    )
    env = commanded(MOVING, TURNING, MOVING, MOVING, STANDING)
    swinging = mdp.feet_air_time_in_range(env, 0.05, 0.5, sensor_cfg=touches, **ON)
    assert swinging.tolist() == [2.0, 1.0, 0.0, 1.0, 0.0]


@pytest.fixture
def env() -> ManagerEnv:
    still = ("env.events.push_robot=null", "env.events.reset_base=null")
    return make(FLAT_G1, *still, num_envs=2)


def lift(env: ManagerEnv, height: float, speed: float = 0.0, turning: float = 0.0) -> None:
    qpos, qvel = env.default_qpos.repeat(2, 1), torch.zeros_like(env.sim.data.qvel)
    qpos[:, 2] += height
    qvel[:, 0], qvel[:, 5] = speed, turning
    env.sim.reset(torch.ones(2, dtype=torch.bool), qpos, qvel)


def test_feet_are_as_high_and_fast_as_the_robot_that_is_lifted(env):
    feet = env.sensor_manager.get_term("feet")
    lift(env, 0.0)
    start = feet.heights.clone()
    assert start.abs().max() < 0.02
    lift(env, 0.3, speed=1.5)
    assert torch.allclose(feet.heights, start + 0.3, atol=1e-6)
    assert torch.allclose(feet.speeds, torch.full((2, 2), 1.5), atol=1e-6)
    lift(env, 0.3, turning=2.0)  # about the vertical through the pelvis
    away = env.sim.data.site_xpos[:, feet.sites, :2] - env.sim.data.qpos[:, None, :2]
    assert torch.allclose(feet.speeds, 2.0 * away.norm(dim=2), atol=1e-5)


def test_the_highest_point_of_a_swing_is_known_when_it_ends(env):
    feet = env.sensor_manager.get_term("feet")
    contacts = env.sensor_manager.get_term("contact_forces")

    def move(height: float, touches: bool) -> None:
        lift(env, height)
        time = contacts.current_contact_time
        time.add_(env.step_dt).mul_(touches)
        contacts.force_norms.fill_(100.0 * touches)
        feet.update(env.step_dt)

    lift(env, 0.0)
    low = feet.heights.clone()
    for height, touches in ((0.0, True), (0.05, False), (0.12, False), (0.06, False)):
        move(height, touches)
        assert not feet.landing_heights.any()
    state = save(feet)
    move(0.0, True)
    assert torch.allclose(feet.landing_heights, low + 0.12, atol=1e-6)
    move(0.0, True)
    assert not feet.landing_heights.any()
    move(0.04, False)
    move(0.0, True)  # after a lower swing
    assert torch.allclose(feet.landing_heights, low + 0.04, atol=1e-6)
    restore(feet, state, torch.device("cpu"))
    assert torch.allclose(feet.peak_heights, low + 0.12, atol=1e-6)
    feet.reset(torch.tensor([True, False]))
    assert (feet.peak_heights > 0.1).tolist() == [[False, False], [True, True]]


def test_commands_ahead_go_straight_at_a_least_speed():
    shares = (f"env.commands.twist.rel_{kind}_envs=0.0" for kind in ("standing", "heading"))
    env = make(FLAT_G1, *shares, num_envs=600)
    command = env.command_manager.get_command("twist")
    ahead = (command[:, 1] == 0.0) & (command[:, 2] == 0.0)
    assert ahead.float().mean().item() == pytest.approx(0.2, abs=0.06)
    assert command[ahead, 0].min() >= 0.3
    assert command[ahead, 0].max() > 0.9
    assert (command[~ahead, 0] < 0.0).float().mean().item() == pytest.approx(0.5, abs=0.08)
