"""Resets of roots in any orientation, and of the whole scene."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import random_orientation
from envlab.envs.mdp.events import set_root_velocity, six_ranges
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


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
