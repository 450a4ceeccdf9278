"""Rewards for following a commanded velocity smoothly; each returns ``(num_envs,)``.

Commands are (vx, vy, wz), in m/s and rad/s, of a :class:`UniformVelocityCommandCfg`. As in Isaac
Lab, they apply to the root's centre of mass (see :mod:`envlab.envs.mdp.root`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import quat_apply_inverse, squared_difference, yaw_quat
from envlab.envs.mdp.root import (
    base_lin_vel,
    projected_gravity,
    root_ang_vel_w,
    root_lin_vel_w,
)

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def track_lin_vel_xy_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the horizontal velocity in the root's frame."""
    return _kernel_xy(env, std, command_name, base_lin_vel(env, asset_cfg))


def track_lin_vel_xy_yaw_frame_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the velocity along the ground, in the root's heading."""
    heading = yaw_quat(env.sim.data.qpos[:, asset_cfg.root_quat])
    velocity = quat_apply_inverse(heading, root_lin_vel_w(env, asset_cfg))
    return _kernel_xy(env, std, command_name, velocity)


def track_ang_vel_z_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the turning velocity about the root's own axis."""
    turning = env.sim.data.qvel[:, asset_cfg.root_ang_vel][:, 2]
    command = env.command_manager.get_command(command_name)
    return torch.exp(squared_difference(command[:, 2], turning) / -(std**2))


def track_ang_vel_z_world_exp(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return ``exp(-error^2 / std^2)`` of the turning velocity about the vertical."""
    turning = root_ang_vel_w(env, asset_cfg)[:, 2]
    command = env.command_manager.get_command(command_name)
    return torch.exp(squared_difference(command[:, 2], turning) / -(std**2))


def lin_vel_z_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared velocity along the root's own z axis, in m^2/s^2."""
    return base_lin_vel(env, asset_cfg)[:, 2].square()


def ang_vel_xy_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared rolling and pitching velocity, in rad^2/s^2."""
    return env.sim.data.qvel[:, asset_cfg.root_ang_vel][:, :2].square().sum(dim=1)


def flat_orientation_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the squared horizontal part of gravity's direction in the root's frame: 0 if level."""
    return projected_gravity(env, asset_cfg)[:, :2].square().sum(dim=1)


def bad_orientation(
    env: ManagerEnv, limit_angle: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether the root is tilted by more than ``limit_angle``, in rad: a termination."""
    return projected_gravity(env, asset_cfg)[:, 2] > -math.cos(limit_angle)


def _kernel_xy(
    env: ManagerEnv, std: float, command_name: str, velocity: torch.Tensor
) -> torch.Tensor:
    """Return the kernel of the horizontal error of a velocity, ``(num_envs, 3)``."""
    command = env.command_manager.get_command(command_name)
    error = squared_difference(command[:, :2], velocity[:, :2])
    return torch.exp(error.sum(dim=1) / -(std**2))
