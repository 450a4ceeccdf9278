"""Event terms; each changes the environments of a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs.random import RandomStream
from envlab.envs.scene import SceneEntity, SceneEntityCfg

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT = SceneEntityCfg("robot")


def reset_joints_by_offset(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,  # type: ignore[assignment]
) -> None:
    """Reset hinge and slide joints to their defaults plus uniform offsets, in m or rad, and per second."""
    positions = env.reset_qpos[:, asset_cfg.qpos_ids]
    velocities = env.reset_qvel[:, asset_cfg.qvel_ids]
    # The staged values outside the mask are never read, so the mask need not be applied here.
    env.reset_qpos[:, asset_cfg.qpos_ids] = positions + stream.uniform(
        *position_range, positions.shape[1]
    )
    env.reset_qvel[:, asset_cfg.qvel_ids] = velocities + stream.uniform(
        *velocity_range, velocities.shape[1]
    )


def randomize_rigid_body_mass(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    mass_distribution_params: tuple[float, float],
    operation: Literal["add", "scale", "abs"],
    asset_cfg: SceneEntity = _ROBOT,  # type: ignore[assignment]
) -> None:
    """Change body masses, always from the model's own, and scale the inertias with them.

    Needs ``body_mass`` and ``body_inertia`` in ``env.sim.model_fields``.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        mass_distribution_params: Bounds of the uniform draw, in kg, or as a factor for ``scale``.
        operation: What to do with the draw.
        asset_cfg: The bodies.
    """
    ids = asset_cfg.body_ids
    masses = torch.as_tensor(env.sim.model.body_mass, dtype=torch.float32, device=env.device)[ids]
    inertias = torch.as_tensor(env.sim.model.body_inertia, dtype=torch.float32, device=env.device)[
        ids
    ]
    drawn = stream.uniform(*mass_distribution_params, len(masses))
    if operation == "add":
        drawn = masses + drawn
    elif operation == "scale":
        drawn = masses * drawn
    rows = mask.unsqueeze(1)
    params = env.sim.params
    params.body_mass[:, ids] = torch.where(rows, drawn, params.body_mass[:, ids])
    scaled = inertias * (drawn / masses).unsqueeze(2)
    params.body_inertia[:, ids] = torch.where(
        rows.unsqueeze(2), scaled, params.body_inertia[:, ids]
    )
    env.sim.apply_params(mask)
