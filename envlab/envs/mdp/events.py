"""Event terms; each changes the environments of a mask, or resets their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.math import (
    quat_apply_inverse,
    quat_from_angles,
    quat_mul,
    random_orientation,
    reversed_about_z,
    turned_about_z,
)
from envlab.envs.mdp.model_field import LEAST_MASS_KG, Distribution, Operation, combine, draw
from envlab.envs.mdp.root import origin_velocity
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv


_ROBOT: Any = SceneEntityCfg("robot")


def reset_joints_by_offset(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float],
    soft_limit_factor: float = 1.0,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset hinge and slide joints to defaults plus uniform offsets, positions within limits.

    Offsets are in m or rad (per second); :func:`soft_joint_limits` explains the limits. Isaac Lab
    clamps velocities too, to limits that MJCF does not have; its own tasks draw at most 0.8 rad/s,
    far below them.
    """
    num = len(asset_cfg.joint_names)
    drawn = stream.ranges([position_range] * num + [velocity_range] * num, mask)
    offsets, velocities = drawn.split(num, dim=1)
    positions = columns(env.default_qpos_rows, asset_cfg.qpos_ids)
    if _any([position_range]):
        positions = positions + offsets
    # Staged values outside the mask are never read, so the mask need not be applied here.
    _set_positions(env, positions, soft_limit_factor, asset_cfg)
    if _any([velocity_range]):  # else they have been staged already: the default ones, at rest
        _set_columns(env.reset_qvel, asset_cfg.qvel_ids, velocities)


def reset_joints_by_scale(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float],
    soft_limit_factor: float = 1.0,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset hinge and slide joints to defaults times uniform factors, positions within limits.

    Default velocities are zero here, so any ``velocity_range`` leaves them unchanged.
    :func:`soft_joint_limits` explains the limits.
    """
    drawn = stream.uniform(*position_range, len(asset_cfg.joint_names), mask)
    positions = columns(env.default_qpos, asset_cfg.qpos_ids) * drawn
    _set_positions(env, positions, soft_limit_factor, asset_cfg)


def reset_root_state_uniform(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    pose_range: dict[str, tuple[float, float]],
    velocity_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset the root to its default pose at the environment's origin plus uniform offsets.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        pose_range: Bounds of ``x``, ``y``, ``z`` in m and ``roll``, ``pitch``, ``yaw`` in rad, in
            the world frame; the others are not changed.
        velocity_range: Bounds of the same in m/s and rad/s, world frame, of the root's centre of
            mass.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For any other name.
    """
    ranges = [*six_ranges(pose_range, "pose_range"), *six_ranges(velocity_range, "velocity_range")]
    drawn = stream.ranges(ranges, mask)
    if asset_cfg.mocap_id is not None:
        _place_mocap(env, mask, drawn, asset_cfg.mocap_id)
        return
    place_root(env, None if env.terrain is None else env.env_origins, ranges, drawn, asset_cfg)


def _place_mocap(env: ManagerEnv, mask: torch.Tensor, drawn: torch.Tensor, row: int) -> None:
    """Move a mocap body from its default pose by drawn offsets, ``(num_envs, 12)``."""
    pos, quat = env.sim.mocap_pos[:, row], env.sim.mocap_quat[:, row]
    turned = quat_mul(quat_from_angles(drawn[:, 3:6]), quat)
    pos.add_(drawn[:, :3] * mask.unsqueeze(1))
    quat.copy_(torch.where(mask.unsqueeze(1), turned, quat))


def place_root(
    env: ManagerEnv,
    origins: torch.Tensor | None,
    ranges: Sequence[tuple[float, float]],
    drawn: torch.Tensor,
    asset_cfg: SceneEntity,
) -> None:
    """Stage a root's default pose at origins plus drawn offsets.

    Args:
        env: The environment.
        origins: In m, ``(num_envs, 3)``; None: zero.
        ranges: Bounds of the twelve draws: :func:`six_ranges` of the pose and of the velocity.
        drawn: The draws, ``(num_envs, 12)``.
        asset_cfg: The entity.
    """
    offsets = drawn[:, :3] if origins is None else origins + drawn[:, :3]
    env.reset_qpos[:, asset_cfg.root_pos].add_(offsets)
    quat = env.default_qpos[:, asset_cfg.root_quat]
    # What is not drawn has been staged already: the default orientation, at rest.
    if _any(ranges[3:5]):
        turn = quat_from_angles(drawn[:, 3:6])
        quat = quat_mul(turn, quat.expand(len(drawn), 4))
    elif _any(ranges[5:6]):
        key = ("reversed", asset_cfg.root_body)
        if key not in env.constants:
            env.constants[key] = reversed_about_z(quat)
        quat = turned_about_z(quat, drawn[:, 5], env.constants[key])
    if _any(ranges[3:6]):
        env.reset_qpos[:, asset_cfg.root_quat] = quat
    if _any(ranges[6:]):
        set_root_velocity(env, quat, drawn[:, 6:], asset_cfg)


def set_root_velocity(
    env: ManagerEnv, quat: torch.Tensor, velocities: torch.Tensor, asset_cfg: SceneEntity
) -> None:
    """Stage a root's velocity.

    Args:
        env: The environment.
        quat: The root's orientation, ``(num_envs, 4)``.
        velocities: Of its centre of mass in m/s, and angular in rad/s, world frame,
            ``(num_envs, 6)``.
        asset_cfg: The entity.
    """
    ang_vel = quat_apply_inverse(quat, velocities[:, 3:])
    velocity = origin_velocity(env, quat, velocities[:, :3], ang_vel, asset_cfg)
    env.reset_qvel[:, asset_cfg.root_lin_vel] = velocity
    env.reset_qvel[:, asset_cfg.root_ang_vel] = ang_vel


def _any(ranges: Sequence[tuple[float, float]]) -> bool:
    """Return whether draws from any of the ranges may differ from 0."""
    return any(low != 0.0 or high != 0.0 for low, high in ranges)


def six_ranges(ranges: dict[str, tuple[float, float]], param: str) -> list[tuple[float, float]]:
    """Return the bounds of x, y, z, roll, pitch and yaw; (0, 0) where none are given."""
    names = ("x", "y", "z", "roll", "pitch", "yaw")
    for name in ranges:
        if name not in names:
            raise ConfigurationError(
                f"{param} has the key {name!r}, but its keys are {', '.join(names)}."
            )
    return [ranges.get(name, (0.0, 0.0)) for name in names]


def joint_limits(env: VectorEnv, asset_cfg: SceneEntity) -> tuple[torch.Tensor, torch.Tensor]:
    """Return lower and upper position limits of hinge and slide joints, ``(num_joints,)`` each.

    They are infinite for joints without limits.
    """
    return position_limits(env, asset_cfg.joint_names)


def soft_joint_limits(
    env: VectorEnv, factor: float, asset_cfg: SceneEntity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the limits of a share of each joint's range about its middle, ``(num_joints,)`` each.

    In Isaac Lab and mjlab this share belongs to the robot (``soft_joint_pos_limit_factor``).
    """
    key = ("soft_limits", factor, *asset_cfg.joint_names)
    if key not in env.constants:
        low, high = joint_limits(env, asset_cfg)
        margin = torch.nan_to_num((0.5 - 0.5 * factor) * (high - low), posinf=0.0)
        env.constants[key] = torch.stack((low + margin, high - margin))
    low_high = env.constants[key]
    return low_high[0], low_high[1]


def position_limits(env: VectorEnv, joint_names: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return :func:`joint_limits` of these joints, in their order."""
    model = env.sim.model
    ids = [model.joint(name).id for name in joint_names]
    key = ("joint_limits", *ids)
    if key not in env.constants:
        limited = model.jnt_limited[ids].astype(bool)
        low = np.where(limited, model.jnt_range[ids, 0], -np.inf)
        high = np.where(limited, model.jnt_range[ids, 1], np.inf)
        env.constants[key] = torch.as_tensor(
            np.stack((low, high)), dtype=torch.float32, device=env.device
        )
    low_high = env.constants[key]
    return low_high[0], low_high[1]


def _set_positions(
    env: VectorEnv, positions: torch.Tensor, soft_limit_factor: float, asset_cfg: SceneEntity
) -> None:
    """Stage joint positions, ``(num_envs, num_joints)``, clamped to their limits."""
    low, high = soft_joint_limits(env, soft_limit_factor, asset_cfg)
    if isinstance(asset_cfg.qpos_ids, slice):
        torch.clamp(positions, low, high, out=env.reset_qpos[:, asset_cfg.qpos_ids])
    else:
        env.reset_qpos.index_copy_(1, asset_cfg.qpos_ids, positions.clamp(low, high))


def _set_columns(target: torch.Tensor, ids: slice | torch.Tensor, values: torch.Tensor) -> None:
    """Write ``values``, ``(num_envs, k)``, to columns of ``target``."""
    if isinstance(ids, slice):
        target[:, ids] = values
    else:
        target.index_copy_(1, ids, values)


@requires_model_fields("body_mass", "body_inertia")
def randomize_rigid_body_mass(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    mass_distribution_params: tuple[float, float],
    operation: Operation,
    asset_cfg: SceneEntity = _ROBOT,
    distribution: Distribution = "uniform",
    recompute_inertia: bool = True,
) -> None:
    """Change body masses, always from the model's own, and scale the inertias with them.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        mass_distribution_params: Bounds of the draw, in kg, or as a factor for ``scale``.
        operation: How to apply the draw.
        asset_cfg: The bodies.
        distribution: How to draw; see :func:`randomize_model_field`.
        recompute_inertia: Whether inertias follow; else it is a mass point that is added.

    Raises:
        ConfigurationError: For an unknown operation.
    """
    ids = asset_cfg.body_ids
    masses, inertias = (env.nominal_rows(f"body_{one}")[:, ids] for one in ("mass", "inertia"))
    drawn = draw(env, stream, distribution, [mass_distribution_params] * masses.shape[1], mask)
    drawn = combine(masses, drawn, operation).clamp(min=LEAST_MASS_KG)
    rows = mask.unsqueeze(1)
    params = env.sim.params
    params.body_mass[:, ids] = torch.where(rows, drawn, params.body_mass[:, ids])
    if recompute_inertia:
        ratio = torch.where(masses > 0.0, drawn / masses, 1.0)  # a massless body has none either
        scaled = inertias * ratio.unsqueeze(-1)
        params.body_inertia[:, ids] = torch.where(
            rows.unsqueeze(2), scaled, params.body_inertia[:, ids]
        )
    env.sim.apply_params(mask)


def reset_root_state_with_random_orientation(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    pose_range: dict[str, tuple[float, float]],
    velocity_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset the root to its default position plus uniform offsets, in any orientation.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        pose_range: Bounds of ``x``, ``y`` and ``z`` in m.
        velocity_range: Bounds of these in m/s, of the root's centre of mass, and of ``roll``,
            ``pitch`` and ``yaw`` in rad/s, world frame.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For any other name; Isaac Lab ignores it.
    """
    turned = [name for name in ("roll", "pitch", "yaw") if name in pose_range]
    if turned:
        raise ConfigurationError(
            f"pose_range has the key {turned[0]!r}, but every orientation is drawn: its keys are "
            "x, y and z. For bounds of angles use reset_root_state_uniform."
        )
    positions = six_ranges(pose_range, "pose_range")[:3]
    velocities = six_ranges(velocity_range, "velocity_range")
    drawn = stream.ranges([*positions, *[(0.0, 1.0)] * 3, *velocities], mask)
    env.reset_qpos[:, asset_cfg.root_pos].add_(env.env_origins + drawn[:, :3])
    quat = random_orientation(drawn[:, 3:6])
    env.reset_qpos[:, asset_cfg.root_quat] = quat
    set_root_velocity(env, quat, drawn[:, 6:], asset_cfg)


def reset_scene_to_default(
    env: ManagerEnv, mask: torch.Tensor, stream: RandomStream, reset_joint_targets: bool = False
) -> None:
    """Reset all joints to their defaults at rest, and free bodies to the environment's origin.

    It overrides the resets before it. Without any event, joints are also reset to their defaults,
    but free bodies are not moved to the origins of generated ground. ``reset_joint_targets`` has no
    effect: controls are always reset.
    """
    env.reset_qpos.copy_(env.default_qpos_rows)
    env.reset_qvel.zero_()
    model = env.sim.model
    for joint in range(model.njnt):
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            start = int(model.jnt_qposadr[joint])
            env.reset_qpos[:, start : start + 3].add_(env.env_origins)
