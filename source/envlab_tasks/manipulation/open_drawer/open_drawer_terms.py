"""Terms of opening a drawer by its handle. Names and formulas are those of Isaac Lab 2.3.2.

They read sites of the scene: the robot's grasp point and fingertips, and the handle, whose frame is
the drawer's: x points out of the cabinet, z up. They need ``site_xpos`` and ``xquat``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import SceneEntityCfg
from envlab.envs.entities import SceneEntity, columns
from envlab.envs.math import matrix_from_quat
from envlab.envs.mdp.root import site_orientations, site_positions

if TYPE_CHECKING:
    from envlab.envs import ManagerEnv

_EE: Any = SceneEntityCfg("robot", site_names="ee")
_FINGERTIPS: Any = SceneEntityCfg("robot", site_names=["left_fingertip", "right_fingertip"])
_HANDLE: Any = SceneEntityCfg("cabinet", site_names="drawer_handle_top")


def rel_ee_drawer_distance(
    env: ManagerEnv, ee_cfg: SceneEntity = _EE, handle_cfg: SceneEntity = _HANDLE
) -> torch.Tensor:
    """Return the vector from grasp point to handle, in m, world frame, ``(num_envs, 3)``."""
    return site_positions(env, handle_cfg)[:, 0] - site_positions(env, ee_cfg)[:, 0]


def approach_ee_handle(
    env: ManagerEnv, threshold: float, ee_cfg: SceneEntity = _EE, handle_cfg: SceneEntity = _HANDLE
) -> torch.Tensor:
    """Return ``(1 + d^2)^-2`` of the distance d from the handle, in m; twice it within a limit."""
    distance = rel_ee_drawer_distance(env, ee_cfg, handle_cfg).norm(dim=1)
    reward = (1.0 + distance.square()).pow(-2)
    return torch.where(distance <= threshold, 2.0 * reward, reward)


def align_ee_handle(
    env: ManagerEnv, ee_cfg: SceneEntity = _EE, handle_cfg: SceneEntity = _HANDLE
) -> torch.Tensor:
    """Return the hand's alignment into the drawer with its left finger on top, -1 to 1.

    The mean, over two axes, of the signed squared cosine: of the hand's z and the handle's -x, and
    of the hand's x and the handle's -y.
    """
    hand = matrix_from_quat(site_orientations(env, ee_cfg)[:, 0])
    handle = matrix_from_quat(site_orientations(env, handle_cfg)[:, 0])
    align_z = -(hand[..., 2] * handle[..., 0]).sum(dim=1)
    align_x = -(hand[..., 0] * handle[..., 1]).sum(dim=1)
    return 0.5 * (align_z * align_z.abs() + align_x * align_x.abs())


def align_grasp_around_handle(
    env: ManagerEnv, fingertips_cfg: SceneEntity = _FINGERTIPS, handle_cfg: SceneEntity = _HANDLE
) -> torch.Tensor:
    """Return 1 where the left fingertip is above the handle and the right one below, else 0."""
    left, right = _finger_heights(env, fingertips_cfg, handle_cfg)
    return ((left > 0.0) & (right < 0.0)).float()


def approach_gripper_handle(
    env: ManagerEnv,
    offset: float,
    fingertips_cfg: SceneEntity = _FINGERTIPS,
    handle_cfg: SceneEntity = _HANDLE,
) -> torch.Tensor:
    """Return how much closer than ``offset`` the fingertips are to a handle between them, in m."""
    left, right = _finger_heights(env, fingertips_cfg, handle_cfg)
    is_around = (left > 0.0) & (right < 0.0)
    return is_around * (2.0 * offset - left.abs() - right.abs())


def grasp_handle(
    env: ManagerEnv,
    threshold: float,
    open_joint_pos: float,
    asset_cfg: SceneEntity,
    ee_cfg: SceneEntity = _EE,
    handle_cfg: SceneEntity = _HANDLE,
) -> torch.Tensor:
    """Return the closing of the fingers, in m, near the handle; further away 0."""
    is_close = rel_ee_drawer_distance(env, ee_cfg, handle_cfg).norm(dim=1) <= threshold
    return is_close * (open_joint_pos - columns(env.sim.data.qpos, asset_cfg.qpos_ids)).sum(dim=1)


def open_drawer_bonus(
    env: ManagerEnv,
    asset_cfg: SceneEntity,
    fingertips_cfg: SceneEntity = _FINGERTIPS,
    handle_cfg: SceneEntity = _HANDLE,
) -> torch.Tensor:
    """Return the opening of the drawer, in m; twice that with the fingers around the handle."""
    drawer = env.sim.data.qpos[:, asset_cfg.qpos_ids][:, 0]
    return (1.0 + align_grasp_around_handle(env, fingertips_cfg, handle_cfg)) * drawer


def drawer_is_open(env: ManagerEnv, threshold: float, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return whether the drawer is open by more than ``threshold``, in m."""
    return env.sim.data.qpos[:, asset_cfg.qpos_ids][:, 0] > threshold


def multi_stage_open_drawer(
    env: ManagerEnv,
    asset_cfg: SceneEntity,
    fingertips_cfg: SceneEntity = _FINGERTIPS,
    handle_cfg: SceneEntity = _HANDLE,
) -> torch.Tensor:
    """Return 0.5 beyond 0.01 m; with the fingers around the handle 1 more at 0.2 and at 0.3 m."""
    drawer = env.sim.data.qpos[:, asset_cfg.qpos_ids][:, 0]
    is_around = align_grasp_around_handle(env, fingertips_cfg, handle_cfg)
    return 0.5 * (drawer > 0.01) + is_around * ((drawer > 0.2).float() + (drawer > 0.3).float())


def _finger_heights(
    env: ManagerEnv, fingertips_cfg: SceneEntity, handle_cfg: SceneEntity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the heights of the left and the right fingertip above the handle, in m."""
    above = site_positions(env, fingertips_cfg)[..., 2] - site_positions(env, handle_cfg)[..., 2]
    return above[:, 0], above[:, 1]
