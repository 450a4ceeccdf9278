"""Poses of bodies and sites, in the world or relative to an entity's topmost body.

They need ``xpos`` and ``xquat`` in ``env.sim.data_fields``, those of sites ``site_xpos`` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from envlab.envs.entities import SceneEntity, columns
from envlab.envs.math import quat_mul

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


def base_pose(env: VectorEnv, entity: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pose of an entity's topmost body in the world.

    Returns:
        Position in m, ``(num_envs, 3)``, and orientation as (w, x, y, z), ``(num_envs, 4)``.
    """
    data = env.sim.data
    return data.xpos[:, entity.root_body], data.xquat[:, entity.root_body]


def body_poses(env: VectorEnv, entity: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the poses of an entity's bodies in the world.

    Returns:
        Positions in m, ``(num_envs, num_bodies, 3)``, and orientations as (w, x, y, z),
        ``(num_envs, num_bodies, 4)``.
    """
    data = env.sim.data
    return columns(data.xpos, entity.body_ids), columns(data.xquat, entity.body_ids)


def site_positions(env: VectorEnv, entity: SceneEntity) -> torch.Tensor:
    """Return an entity's site positions in the world, in m, ``(num_envs, num_sites, 3)``."""
    return columns(env.sim.data.site_xpos, entity.site_ids)


def site_orientations(env: VectorEnv, entity: SceneEntity) -> torch.Tensor:
    """Return the orientations of an entity's sites in the world, ``(num_envs, num_sites, 4)``.

    They are (w, x, y, z).
    """
    if "site_body" not in env.constants:
        model = env.sim.model
        env.constants["site_body"] = torch.as_tensor(
            np.asarray(model.site_bodyid), dtype=torch.int64, device=env.device
        )
        env.constants["site_quat"] = torch.as_tensor(
            np.asarray(model.site_quat), dtype=torch.float32, device=env.device
        )
    bodies = env.constants["site_body"][entity.site_ids]
    local = env.constants["site_quat"][entity.site_ids]
    quats = env.sim.data.xquat[:, bodies]
    return quat_mul(quats, local.expand_as(quats))
