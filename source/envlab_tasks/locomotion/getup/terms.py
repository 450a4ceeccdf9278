"""The rewards and observations of MuJoCo Playground's Go1Getup; rewards are ``(num_envs,)``.

Formulas are those of ``mujoco_playground/_src/locomotion/go1/getup.py``. Heights are those of a
site, in m.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.entities import SceneEntity, columns

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv
    from envlab_tasks.locomotion.playground_env import PlaygroundEnv

UPRIGHT_TOLERANCE = 0.01
"""Largest squared error of gravity's direction with which a robot counts as upright: 5.7 degrees.
"""
HEIGHT_TOLERANCE_M = 0.005
MAX_JOINT_SPEED = 2.0 * math.pi
"""Speed of a joint up to which there is no deduction, in rad/s."""

_ROBOT: Any = SceneEntityCfg("robot")


def site_height(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the heights of the named sites, ``(num_envs, num_sites)``."""
    return mdp.site_positions(env, asset_cfg)[..., 2]


def _tilt(env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the squared distance of gravity's direction in the root's frame from (0, 0, -1)."""
    gravity = mdp.projected_gravity(env, asset_cfg)
    return gravity[:, :2].square().sum(dim=1) + (gravity[:, 2] + 1.0).square()


def is_upright(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return which robots are upright, bool ``(num_envs,)``."""
    return _tilt(env, asset_cfg) < UPRIGHT_TOLERANCE


def is_standing(env: ManagerEnv, target_height: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return which robots are upright and at least as high as a target, bool ``(num_envs,)``."""
    missing = target_height - site_height(env, asset_cfg)[:, 0]
    return is_upright(env, asset_cfg) & (missing < HEIGHT_TOLERANCE_M)


def orientation(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return how upright the robot is: 1 when it is so, near 0 on its back."""
    return torch.exp(-2.0 * _tilt(env, asset_cfg))


def torso_height(env: ManagerEnv, target_height: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return exp(height) - 1, for heights up to the target."""
    return torch.expm1(site_height(env, asset_cfg)[:, 0].clamp(max=target_height))


def posture(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the nearness of joints to the default pose, if the robot is upright."""
    error = mdp.joint_pos_rel(env, asset_cfg).square().sum(dim=1)
    return is_upright(env, asset_cfg) * torch.exp(-0.5 * error)


def stand_still(env: ManagerEnv, target_height: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the smallness of the action, if the robot is upright and high enough."""
    return is_standing(env, target_height, asset_cfg) * torch.exp(-0.5 * mdp.action_l2(env))


def action_rate(env: PlaygroundEnv) -> torch.Tensor:
    """Return the squares of the action's first and second differences, summed."""
    manager = env.action_manager
    first = manager.action - manager.prev_action
    second = first - (manager.prev_action - env.older_action)
    return first.square().sum(dim=1) + second.square().sum(dim=1)


def torques(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the Euclidean norm of the motors' torques plus the sum of their sizes, in N m."""
    values = mdp.actuator_force(env, asset_cfg)
    return torch.linalg.vector_norm(values, dim=1) + values.abs().sum(dim=1)


def joint_speed(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the sum of squared excesses of speeds over 2 pi rad/s."""
    speeds = columns(env.sim.data.qvel, asset_cfg.qvel_ids).abs()
    return (speeds - MAX_JOINT_SPEED).clamp(min=0.0).square().sum(dim=1)
