"""Termination terms; each returns bool ``(num_envs,)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


_ROBOT: Any = SceneEntityCfg("robot")


def time_out(env: ManagerEnv) -> torch.Tensor:
    """Return whether the episode has lasted ``episode_length_s``."""
    return env.episode_length_buf >= env.max_episode_length


def joint_pos_out_of_manual_limit(
    env: ManagerEnv, bounds: tuple[float, float], asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return whether any of the joints is outside ``bounds``, in m or rad."""
    positions = env.sim.data.qpos[:, asset_cfg.qpos_ids]
    is_out = positions.clamp(*bounds) != positions
    return is_out.squeeze(1) if is_out.shape[1] == 1 else is_out.any(dim=1)


def root_height_below_minimum(
    env: ManagerEnv, minimum_height: float, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return whether the root is lower in the world than ``minimum_height``, in m."""
    return env.sim.data.qpos[:, asset_cfg.root_pos][:, 2] < minimum_height


def nan_detection(env: ManagerEnv) -> torch.Tensor:
    """Return whether a field of the physics that the task reads is not finite.

    The NaN guard ends such episodes in every task, and gives them no reward.
    """
    fields = [values.flatten(1) for _, values in env.sim.data.items()]
    return torch.stack([~values.isfinite().all(dim=1) for values in fields]).any(dim=0)
