"""The rewards of MuJoCo Playground's T1JoystickFlatTerrain that no other task has, ``(num_envs,)``.

Formulas are those of ``mujoco_playground/_src/locomotion/t1/joystick.py``. ``asset_cfg`` of feet
names the sites of the left and the right one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.contact_sensor import ContactBodies
from envlab.envs.entities import SceneEntity, columns, joint_values
from envlab.envs.math import yaw_from_quat
from envlab.envs.mdp.root import base_origin_vel
from envlab.envs.random import RandomStream
from envlab_tasks.locomotion.velocity.t1.gait_phase import GaitPhase, foot_heights

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")
MOVING = 0.1
"""Length of a velocity command, or its part to the left, above which a robot should move."""


def track_linear_velocity(
    env: ManagerEnv, sigma: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the tracking of the command by the root's horizontal velocity, in its own frame."""
    command = mdp.generated_commands(env, command_name)
    error = (command[:, :2] - base_origin_vel(env, asset_cfg)[:, :2]).square().sum(dim=1)
    return torch.exp(-error / sigma)


def track_angular_velocity(
    env: ManagerEnv, sigma: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the tracking of the commanded turn about the root's own vertical axis."""
    command = mdp.generated_commands(env, command_name)
    error = (command[:, 2] - mdp.base_ang_vel(env, asset_cfg)[:, 2]).square()
    return torch.exp(-error / sigma)


def feet_air_time(
    env: ManagerEnv,
    command_name: str,
    sensor_cfg: ContactBodies,
    least_s: float = 0.2,
    most_s: float = 0.5,
) -> torch.Tensor:
    """Return the excess over ``least_s`` of the air time of feet that touch down, in s.

    Time above ``most_s`` does not count; it is zero if the robot should stand. A foot that begins
    an episode on the ground does not touch down.
    """
    in_air = sensor_cfg.last_air_time
    longer = (in_air - least_s) * (sensor_cfg.first_contact & (in_air > 0.0))
    moves = torch.linalg.vector_norm(mdp.generated_commands(env, command_name), dim=1) > MOVING
    return longer.clamp(max=most_s - least_s).sum(dim=1) * moves


def feet_slip(
    env: ManagerEnv, sensor_cfg: ContactBodies, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the root's horizontal speed, in m/s, times the number of feet in contact."""
    velocity = env.sim.data.qvel[:, asset_cfg.root_lin_vel][:, :2]
    return torch.linalg.vector_norm(velocity, dim=1) * sensor_cfg.in_contact.sum(dim=1)


def feet_phase(
    env: ManagerEnv, phase_name: str, swing_height: float, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return the agreement of the feet's heights with their phases."""
    phase = cast(GaitPhase, env.command_manager.get_term(phase_name)).phase
    heights = mdp.site_positions(env, asset_cfg)[..., 2]
    error = (heights - foot_heights(phase, swing_height)).square().sum(dim=1)
    return torch.exp(-error / 0.01)


def sideways_deviation(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return joints' distances from their default, in rad, under a sideways command."""
    sideways = mdp.generated_commands(env, command_name)[:, 1].abs() > MOVING
    return mdp.joint_deviation_l1(env, asset_cfg) * sideways


def weighted_pose(
    env: ManagerEnv, weights: dict[str, float], asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the squared distances of joints from their default, times a weight for each."""
    key = ("weighted_pose", *weights.items())
    if key not in env.constants:
        values = joint_values(weights, asset_cfg.joint_names)
        env.constants[key] = torch.tensor(values, device=env.device)
    return (mdp.joint_pos_rel(env, asset_cfg).square() * env.constants[key]).sum(dim=1)


def feet_too_close(
    env: ManagerEnv, feet_cfg: SceneEntity, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return the shortfall of the feet's lateral distance from 20 cm, in m, 10 cm at most."""
    left, right = mdp.site_positions(env, feet_cfg).unbind(1)
    yaw = yaw_from_quat(env.sim.data.qpos[:, asset_cfg.root_quat])
    away = left - right
    distance = (torch.cos(yaw) * away[:, 1] - torch.sin(yaw) * away[:, 0]).abs()
    return (0.2 - distance).clamp(0.0, 0.1)


def sensor_found(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return 1 where the model's named sensor finds a contact, else 0."""
    return (columns(env.sim.data.sensordata, asset_cfg.sensor_ids)[:, 0] > 0.0).float()


def push_horizontally(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    speed_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Add a velocity of a random horizontal direction to the root.

    Args:
        env: The environment.
        mask: Environments to push, bool ``(num_envs,)``.
        stream: The term's random stream.
        speed_range: Bounds of the speed that is added, in m/s.
        asset_cfg: The robot.
    """
    drawn = stream.ranges([(0.0, 2.0 * math.pi), speed_range], mask)
    angle, speed = drawn.unbind(1)
    qvel = env.sim.data.qvel.clone()
    pushed = torch.stack((torch.cos(angle), torch.sin(angle)), dim=1) * speed.unsqueeze(1)
    qvel[:, asset_cfg.root_lin_vel][:, :2] += pushed
    env.sim.set_velocity(mask, qvel)
