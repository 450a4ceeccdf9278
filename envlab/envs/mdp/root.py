"""Poses and velocities of the root, of bodies and of sites.

Positions are those of the body's origin, linear velocities those of its centre of mass, as in Isaac
Lab's ``root_pos_w`` and ``root_lin_vel_w``. MuJoCo's ``qvel`` is the origin's velocity.

They need ``xpos`` and ``xquat`` in ``env.sim.data_fields``, those of sites ``site_xpos`` too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns
from envlab.envs.math import (
    frame_rows,
    gravity_in_body,
    quat_apply,
    quat_mul,
)

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv

_ROBOT: Any = SceneEntityCfg("robot")
_Quantity = Callable[["VectorEnv", SceneEntity], torch.Tensor]


def _once(compute: _Quantity, *, of_pose: bool = False) -> Callable[..., torch.Tensor]:
    """Compute a quantity of a root once for all terms that ask, as :meth:`VectorEnv.once`.

    ``of_pose``: its velocity does not matter.
    """

    @functools.wraps(compute)
    def kept(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
        pushes = env.sim.num_pushes if of_pose else 0
        key, now = (compute, asset_cfg.root_body), (env.sim.num_changes - pushes, 0)
        found = env.derived.get(key)
        if found is None or found[0] != now:  # here, as these are the calls of most terms
            found = env.derived[key] = now, compute(env, asset_cfg)
        value: torch.Tensor = found[1]
        return value

    return kept


def base_pos_z(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's height in the world, in m, ``(num_envs, 1)``."""
    return env.sim.data.qpos[:, asset_cfg.root_pos][:, 2:]


def root_pos_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's position from the environment's origin, in m, ``(num_envs, 3)``."""
    return env.sim.data.qpos[:, asset_cfg.root_pos] - env.env_origins


def root_quat_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's orientation in the world, (w, x, y, z), ``(num_envs, 4)``."""
    return env.sim.data.qpos[:, asset_cfg.root_quat]


@functools.partial(_once, of_pose=True)
def _frame(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's rotation matrix and gravity in its frame; see :func:`frame_rows`."""
    return frame_rows(env.sim.data.qpos[:, asset_cfg.root_quat])


@functools.partial(_once, of_pose=True)
def root_rotation_w(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's rotation matrix, whose columns are its axes, ``(num_envs, 3, 3)``."""
    return _frame(env, asset_cfg)[:9].movedim(0, -1).unflatten(-1, (3, 3))


def in_root_frame(
    env: VectorEnv, vectors: torch.Tensor, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return vectors of the world in the root's frame, ``(num_envs, 3)``."""
    rotation = _frame(env, asset_cfg)[:9].unflatten(0, (3, 3))
    return (rotation * vectors.T.unsqueeze(1)).sum(dim=0).T


def from_root_frame(
    env: VectorEnv, vectors: torch.Tensor, asset_cfg: SceneEntity = _ROBOT
) -> torch.Tensor:
    """Return vectors of the root's frame in the world, ``(num_envs, 3)``."""
    rotation = _frame(env, asset_cfg)[:9].unflatten(0, (3, 3))
    return (rotation * vectors.T).sum(dim=1).T


def root_yaw(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's rotation about the vertical, in rad, float64 ``(num_envs,)``.

    In float64, so that the last bit of an arctangent, which depends on an environment's place in
    the batch, is rounded away.
    """
    cosine, sine = _frame(env, asset_cfg)[:4:3].double()
    return torch.atan2(sine, cosine)


@_once
def root_lin_vel_w(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the velocity of the root's centre of mass in the world frame, in m/s."""
    data = env.sim.data
    velocity, offset = data.qvel[:, asset_cfg.root_lin_vel], _centre_of_mass(env, asset_cfg)
    if offset is None:
        return velocity
    turning = torch.linalg.cross(data.qvel[:, asset_cfg.root_ang_vel], offset)
    return velocity + from_root_frame(env, turning, asset_cfg)


@_once
def root_ang_vel_w(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's angular velocity in the world frame, in rad/s, ``(num_envs, 3)``."""
    return from_root_frame(env, env.sim.data.qvel[:, asset_cfg.root_ang_vel], asset_cfg)


@_once
def base_origin_vel(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the velocity of the root's origin in the root's own frame, in m/s."""
    return in_root_frame(env, env.sim.data.qvel[:, asset_cfg.root_lin_vel], asset_cfg)


@_once
def base_lin_vel(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the velocity of the root's centre of mass in the root's own frame, in m/s."""
    velocity, offset = base_origin_vel(env, asset_cfg), _centre_of_mass(env, asset_cfg)
    if offset is None:
        return velocity
    return velocity + torch.linalg.cross(env.sim.data.qvel[:, asset_cfg.root_ang_vel], offset)


def base_ang_vel(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the root's angular velocity in its own frame, in rad/s, ``(num_envs, 3)``."""
    return env.sim.data.qvel[:, asset_cfg.root_ang_vel]


def projected_gravity(env: VectorEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the direction of gravity in the root's frame, ``(num_envs, 3)``."""
    return _frame(env, asset_cfg)[9:].T


def origin_velocity(
    env: VectorEnv,
    quat: torch.Tensor,
    velocity: torch.Tensor,
    ang_vel: torch.Tensor,
    asset_cfg: SceneEntity,
) -> torch.Tensor:
    """Return the velocity of a root's origin whose centre of mass moves at ``velocity``.

    Args:
        env: The environment.
        quat: The root's orientation, ``(num_envs, 4)``.
        velocity: Of its centre of mass, in m/s, world frame, ``(num_envs, 3)``.
        ang_vel: Its angular velocity, in rad/s, in its own frame, ``(num_envs, 3)``.
        asset_cfg: The entity.
    """
    offset = _centre_of_mass(env, asset_cfg)
    if offset is None:
        return velocity
    return velocity - quat_apply(quat, torch.linalg.cross(ang_vel, offset))


def origin_vel_w(
    env: VectorEnv, velocity: torch.Tensor, ang_vel: torch.Tensor, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return :func:`origin_velocity` of a root as it is oriented now.

    Args:
        env: The environment.
        velocity: Of its centre of mass, in m/s, world frame, ``(num_envs, 3)``.
        ang_vel: Its angular velocity, in rad/s, world frame, ``(num_envs, 3)``.
        asset_cfg: The entity.
    """
    offset = _centre_of_mass(env, asset_cfg)
    if offset is None:
        return velocity
    return velocity - torch.linalg.cross(ang_vel, from_root_frame(env, offset, asset_cfg))


def _centre_of_mass(env: VectorEnv, asset_cfg: SceneEntity) -> torch.Tensor | None:
    """Return a root's centre of mass relative to its origin, in m; None if they coincide.

    It is in the root's frame: ``(num_envs, 3)`` if it differs between environments, else
    ``(1, 3)``.
    """
    body = asset_cfg.root_body
    if (own := vars(env.sim.params).get("body_ipos")) is not None:
        return own[:, body]
    if not env.sim.model.body_ipos[body].any():
        return None
    return env.nominal("body_ipos")[body].unsqueeze(0)


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


def body_pose_w(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return bodies' positions from the environment's origin, in m, and orientations.

    Seven columns for each body: x, y, z, then (w, x, y, z).
    """
    positions, quats = body_poses(env, asset_cfg)
    return torch.cat((positions - env.env_origins.unsqueeze(1), quats), dim=2).flatten(1)


def body_projected_gravity_b(env: ManagerEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the direction of gravity in bodies' frames, three columns for each body."""
    return gravity_in_body(columns(env.sim.data.xquat, asset_cfg.body_ids)).flatten(1)
