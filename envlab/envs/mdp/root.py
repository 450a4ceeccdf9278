"""Observations of an entity's root: the topmost body, which has a free joint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import gravity_in_body, quat_apply, quat_apply_inverse

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def base_pos_z(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's height in the world, in m, ``(num_envs, 1)``."""
    return env.sim.data.qpos[:, asset_cfg.root_pos][:, 2:]


def root_pos_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's position from the environment's origin, in m, ``(num_envs, 3)``."""
    return env.sim.data.qpos[:, asset_cfg.root_pos] - env.env_origins


def root_quat_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's orientation in the world, (w, x, y, z), ``(num_envs, 4)``."""
    return env.sim.data.qpos[:, asset_cfg.root_quat]


def root_lin_vel_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's velocity in the world frame, in m/s, ``(num_envs, 3)``."""
    return env.sim.data.qvel[:, asset_cfg.root_lin_vel]


def root_ang_vel_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's angular velocity in the world frame, in rad/s, ``(num_envs, 3)``."""
    quat = env.sim.data.qpos[:, asset_cfg.root_quat]
    return quat_apply(quat, env.sim.data.qvel[:, asset_cfg.root_ang_vel])


def base_lin_vel(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's velocity in its own frame, in m/s, ``(num_envs, 3)``."""
    quat = env.sim.data.qpos[:, asset_cfg.root_quat]
    return quat_apply_inverse(quat, env.sim.data.qvel[:, asset_cfg.root_lin_vel])


def base_ang_vel(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's angular velocity in its own frame, in rad/s, ``(num_envs, 3)``."""
    return env.sim.data.qvel[:, asset_cfg.root_ang_vel]


def projected_gravity(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the direction of gravity in the root's frame, ``(num_envs, 3)``."""
    return gravity_in_body(env.sim.data.qpos[:, asset_cfg.root_quat])
