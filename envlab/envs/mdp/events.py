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
    num = len(asset_cfg.joint_names)
    drawn = stream.ranges([position_range] * num + [velocity_range] * num, mask)
    # What is staged outside the mask is never read, so the mask need not be applied here.
    _add_columns(env.reset_qpos, asset_cfg.qpos_ids, drawn[:, :num])
    _add_columns(env.reset_qvel, asset_cfg.qvel_ids, drawn[:, num:])


def _add_columns(target: torch.Tensor, ids: slice | torch.Tensor, values: torch.Tensor) -> None:
    """Add ``values``, ``(num_envs, k)``, to columns of ``target`` in place."""
    if isinstance(ids, slice):
        target[:, ids].add_(values)
    else:
        target.index_add_(1, ids, values)


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
    masses, inertias = env.nominal("body_mass")[ids], env.nominal("body_inertia")[ids]
    drawn = stream.uniform(*mass_distribution_params, len(masses), mask)
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
