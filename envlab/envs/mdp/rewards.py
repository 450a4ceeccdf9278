"""Reward terms; each returns ``(num_envs,)``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def is_alive(env: ManagerEnv) -> torch.Tensor:
    """Return 1 where the episode continues or ends by a time limit, else 0."""
    return (~env.termination_manager.terminated).float()


def is_terminated(env: ManagerEnv) -> torch.Tensor:
    """Return 1 where the episode ends by a failure, else 0."""
    return env.termination_manager.terminated.float()


def _sum(values: torch.Tensor) -> torch.Tensor:
    """Return sums over columns; for one column a view, because a sum takes 4 to 25 us."""
    return values.squeeze(1) if values.shape[1] == 1 else values.sum(dim=1)


def joint_pos_target_l2(env: ManagerEnv, target: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the squared distance of angles, wrapped to [-pi, pi), from ``target``, in rad^2."""
    angle = columns(env.sim.data.qpos, asset_cfg.qpos_ids)
    turns = (angle * (0.5 / math.pi)).add_(0.5).floor_()  # a third of torch.remainder's time
    error = torch.sub(angle, turns, alpha=2.0 * math.pi)
    if target:
        error -= target
    return _sum(error.square_())


def joint_vel_l1(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of absolute joint velocities, in m/s or rad/s."""
    return _sum(columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs())


def joint_vel_l2(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of squared joint velocities."""
    return _sum(columns(env.sim.data.qvel, asset_cfg.qvel_ids).square())


def action_l2(env: ManagerEnv) -> torch.Tensor:
    """Return the sum of squared actions."""
    return env.action_manager.action.square().sum(dim=1)


def action_rate_l2(env: ManagerEnv) -> torch.Tensor:
    """Return the squared change of the action since the step before."""
    manager = env.action_manager
    return (manager.action - manager.prev_action).square().sum(dim=1)
