"""Event terms that push bodies: by a change of velocity, or by a lasting force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import quat_apply_inverse
from envlab.envs.mdp.events import six_ranges
from envlab.envs.mdp.root import origin_velocity
from envlab.envs.random import RandomStream

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def push_by_setting_velocity(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    velocity_range: dict[str, tuple[float, float]],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Add uniform draws to the velocity of the root's centre of mass; for interval events.

    Args:
        env: The environment.
        mask: Environments to push, bool ``(num_envs,)``.
        stream: The term's random stream.
        velocity_range: Bounds of ``x``, ``y``, ``z`` in m/s and ``roll``, ``pitch``, ``yaw`` in
            rad/s, in the world frame; the others are not changed.
        asset_cfg: The entity.

    Raises:
        ConfigurationError: For any other name.
    """
    drawn = stream.ranges(six_ranges(velocity_range, "velocity_range"), mask)
    data = env.sim.data
    qvel = data.qvel.clone()
    quat = data.qpos[:, asset_cfg.root_quat]
    turning = quat_apply_inverse(quat, drawn[:, 3:])
    # The relation of the two velocities is linear, so it also holds for changes of them.
    moving = origin_velocity(env, quat, drawn[:, :3], turning, asset_cfg)
    qvel[:, asset_cfg.root_lin_vel].add_(moving)
    qvel[:, asset_cfg.root_ang_vel].add_(turning)
    env.sim.set_velocity(mask, qvel)


def apply_external_force_torque(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    force_range: tuple[float, float],
    torque_range: tuple[float, float],
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Apply uniform forces and torques to bodies until the next call or reset; for reset events.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        force_range: Bounds of each component in the world frame, in N.
        torque_range: Bounds of each component in the world frame, in N m.
        asset_cfg: The bodies; the force acts at their centres of mass.
    """
    if not any((*force_range, *torque_range)):
        return  # in tasks that keep the term only for overrides
    bodies = [env.sim.model.body(name).id for name in asset_cfg.body_names]
    drawn = stream.ranges([force_range] * 3 * len(bodies) + [torque_range] * 3 * len(bodies), mask)
    force, torque = drawn.unflatten(1, (2, len(bodies), 3)).unbind(1)
    env.staged_wrenches.add(mask, bodies, force, torque)
