"""Termination terms; each returns bool ``(num_envs,)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from envlab.envs.entities import SceneEntity

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


def time_out(env: ManagerEnv) -> torch.Tensor:
    """Return whether the episode has lasted ``episode_length_s``."""
    return env.episode_length_buf >= env.max_episode_length


def joint_pos_out_of_manual_limit(
    env: ManagerEnv, bounds: tuple[float, float], asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return whether any of the joints is outside ``bounds``, in m or rad."""
    positions = env.sim.data.qpos[:, asset_cfg.qpos_ids]
    return (positions.clamp(*bounds) != positions).any(dim=1)
