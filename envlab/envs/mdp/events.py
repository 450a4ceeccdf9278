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
    """Reset hinge and slide joints to defaults plus uniform offsets, in m or rad (per second)."""
    qpos_ids, qvel_ids = asset_cfg.qpos_ids, asset_cfg.qvel_ids
    num = len(asset_cfg.joint_names)
    # What is staged outside the mask is never read, so the mask need not be applied here.
    unit = stream.unit(2 * num)
    env.reset_qpos[:, qpos_ids] += scaled(unit[:, :num], position_range)
    env.reset_qvel[:, qvel_ids] += scaled(unit[:, num:], velocity_range)


def scaled(unit: torch.Tensor, bounds: tuple[float, float]) -> torch.Tensor:
    """Map ``unit`` from [0, 1) to ``bounds``."""
    return unit * (bounds[1] - bounds[0]) + bounds[0]


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
    ratio = torch.where(masses > 0.0, drawn / masses, 1.0)  # a massless body has no inertia either
    scaled = inertias * ratio.unsqueeze(2)
    params.body_inertia[:, ids] = torch.where(
        rows.unsqueeze(2), scaled, params.body_inertia[:, ids]
    )
    env.sim.apply_params(mask)
