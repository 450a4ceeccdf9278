"""Terms of tasks that follow a motion, after mjlab 1.6.0's ``tasks/tracking/mdp``.

``command_name`` names a :class:`MotionCommandCfg`. Rewards and terminations return ``(num_envs,)``,
observations ``(num_envs, k)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg
from envlab.envs.math import (
    axes_from_quat,
    gravity_in_body,
    quat_apply_inverse,
    subtract_frame_transforms,
)
from envlab.envs.mdp._motion_reference import fitting_clip
from envlab.envs.mdp.falls import reset_to_one_of
from envlab.envs.mdp.motion_command import MotionCommand
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


def reset_to_motion_frame(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    motion_file: str,
    share: float,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Let a share of the episodes begin in a frame of a clip, turned about the vertical.

    It is DeepMimic's reference state initialisation (Peng et al. 2018) for tasks that do not follow
    the clip: of a gait that a robot would hardly find, it experiences all phases from the
    beginning. The robot then starts at its environment's origin; other episodes are unchanged. For
    flat ground.

    Args:
        env: The environment.
        mask: Environments to reset, bool ``(num_envs,)``.
        stream: The term's random stream.
        motion_file: A clip of the robot, see ``envlab motion info``.
        share: Share of episodes, from 0, with which the clip is not read, to 1.
        asset_cfg: The robot, with all its joints.

    Raises:
        ConfigurationError: If the clip is not one of the robot, or the share not within 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ConfigurationError(
            f"reset_to_motion_frame has a share of {share}, but it must be from 0 to 1."
        )
    if share == 0.0:
        return
    key = ("motion", motion_file, asset_cfg.name)
    if key not in env.constants:
        env.constants[key] = _states_in(motion_file, env, asset_cfg)
    chosen = mask & (stream.uniform(0.0, 1.0, 1)[:, 0] < share)
    reset_to_one_of(env.constants[key], env, chosen, stream, asset_cfg)


def _states_in(motion_file: str, env: ManagerEnv, asset_cfg: SceneEntity) -> torch.Tensor:
    """Return the state of each frame, ``(T, nq + nv)``, above the origin."""
    clip, model = fitting_clip(motion_file, env), env.sim.model
    tables = (clip.joint_pos, clip.joint_vel, clip.body_quat_w, clip.body_lin_vel_w)
    joint_pos, joint_vel, quat, lin_vel, ang_vel, pos = (
        torch.as_tensor(table, dtype=torch.float32, device=env.device)
        for table in (*tables, clip.body_ang_vel_w, clip.body_pos_w)
    )
    root = list(clip.body_names or ()).index(model.body(asset_cfg.root_body).name)
    qpos = env.default_qpos[:1].repeat(len(pos), 1)
    qvel = torch.zeros(len(pos), model.nv, device=env.device)
    qpos[:, asset_cfg.root_pos.start + 2] = pos[:, root, 2]
    qpos[:, asset_cfg.root_quat] = quat[:, root]
    qpos[:, asset_cfg.qpos_ids] = joint_pos
    qvel[:, asset_cfg.root_lin_vel] = lin_vel[:, root]
    qvel[:, asset_cfg.root_ang_vel] = quat_apply_inverse(quat[:, root], ang_vel[:, root])
    qvel[:, asset_cfg.qvel_ids] = joint_vel
    return torch.cat((qpos, qvel), dim=1)


def motion_anchor_pos_b(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the reference anchor's position in the frame of the robot's, in m, 3 columns."""
    return _in_anchor(_motion(env, command_name))[0][:, 0]


def motion_anchor_ori_b(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the reference anchor's orientation in the frame of the robot's, 6 columns.

    They are the first two columns of the rotation matrix, row by row.
    """
    return _in_anchor(_motion(env, command_name))[1][:, 0]


def robot_body_pos_b(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the positions of the robot's bodies in its anchor's frame, in m, 3 columns each."""
    return _in_anchor(_motion(env, command_name))[0][:, 1:].flatten(1)


def robot_body_ori_b(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the orientations of the robot's bodies in its anchor's frame, 6 columns each."""
    return _in_anchor(_motion(env, command_name))[1][:, 1:].flatten(1)


def motion_global_anchor_position_error_exp(
    env: ManagerEnv, command_name: str, std: float
) -> torch.Tensor:
    """Return 1 where the robot's anchor is at the reference's, less by distances; ``std`` in m."""
    motion = _motion(env, command_name)
    return torch.exp(motion.anchor_pos_error.square().sum(dim=1) / -(std**2))


def motion_global_anchor_orientation_error_exp(
    env: ManagerEnv, command_name: str, std: float
) -> torch.Tensor:
    """Return 1 where the anchor is turned as the reference's, less by angles over ``std``, rad."""
    motion = _motion(env, command_name)
    return torch.exp(motion.anchor_angle.square() / -(std**2))


def motion_relative_body_position_error_exp(
    env: ManagerEnv, command_name: str, std: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return 1 where bodies are at the reference's, seen from the robot's anchor; ``std`` in m."""
    motion = _motion(env, command_name)
    return _closeness(motion.body_pos_error.square().sum(dim=2), motion, std, body_names)


def motion_relative_body_orientation_error_exp(
    env: ManagerEnv, command_name: str, std: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return 1 where bodies are turned as the reference's, seen from the anchor; ``std`` in rad."""
    motion = _motion(env, command_name)
    return _closeness(motion.body_angles.square(), motion, std, body_names)


def motion_global_body_linear_velocity_error_exp(
    env: ManagerEnv, command_name: str, std: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return 1 where bodies are as fast as the reference's, in the world; ``std`` in m/s."""
    motion = _motion(env, command_name)
    return _closeness(_speed_errors(motion)[..., 0, :].sum(dim=2), motion, std, body_names)


def motion_global_body_angular_velocity_error_exp(
    env: ManagerEnv, command_name: str, std: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return 1 where bodies turn as fast as the reference's, in the world; ``std`` in rad/s."""
    motion = _motion(env, command_name)
    return _closeness(_speed_errors(motion)[..., 1, :].sum(dim=2), motion, std, body_names)


def bad_anchor_pos(env: ManagerEnv, command_name: str, threshold: float) -> torch.Tensor:
    """Return whether the anchor is further than ``threshold``, in m, from the reference's."""
    motion = _motion(env, command_name)
    return torch.linalg.vector_norm(motion.anchor_pos_error, dim=1) > threshold


def bad_anchor_pos_z_only(env: ManagerEnv, command_name: str, threshold: float) -> torch.Tensor:
    """Return whether the anchor is higher or lower than the reference's by ``threshold``, in m."""
    motion = _motion(env, command_name)
    return motion.anchor_pos_error[:, 2].abs() > threshold


def bad_anchor_ori(env: ManagerEnv, command_name: str, threshold: float) -> torch.Tensor:
    """Return whether the anchor's tilt differs from the reference's by more than ``threshold``.

    It compares the vertical components of gravity in both frames: 0 to 2.
    """
    motion = _motion(env, command_name)
    quats = torch.stack((motion.anchor_quat_w, motion.robot_anchor_quat_w))
    reference, robot = gravity_in_body(quats)[..., 2]
    return (reference - robot).abs() > threshold


def bad_motion_body_pos(
    env: ManagerEnv, command_name: str, threshold: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return whether a body is further than ``threshold``, in m, from its reference."""
    motion = _motion(env, command_name)
    error = torch.linalg.vector_norm(motion.body_pos_error, dim=2)
    return (error[:, motion.indexes(body_names)] > threshold).any(dim=1)


def bad_motion_body_pos_z_only(
    env: ManagerEnv, command_name: str, threshold: float, body_names: list[str] | None = None
) -> torch.Tensor:
    """Return whether a body is higher or lower than its reference by ``threshold``, in m."""
    motion = _motion(env, command_name)
    error = motion.body_pos_error[..., 2].abs()
    return (error[:, motion.indexes(body_names)] > threshold).any(dim=1)


def _motion(env: ManagerEnv, command_name: str) -> MotionCommand:
    term = env.command_manager.get_term(command_name)
    if not isinstance(term, MotionCommand):
        raise ConfigurationError(
            f"A term follows the command {command_name!r}, a {type(term).__name__}, but needs a "
            "MotionCommand."
        )
    return term


def _closeness(
    squares: torch.Tensor, motion: MotionCommand, std: float, body_names: list[str] | None
) -> torch.Tensor:
    """Return exp(-mean / std^2) over bodies of squared errors, ``(num_envs, num_bodies)``."""
    return torch.exp(squares[:, motion.indexes(body_names)].mean(dim=1) / -(std**2))


def _speed_errors(motion: MotionCommand) -> torch.Tensor:
    """Return squared errors of linear and angular velocity, ``(num_envs, num_bodies, 2, 3)``."""
    squares: torch.Tensor = motion.once("squares", lambda: motion.body_vel_error.square())
    return squares


def _in_anchor(motion: MotionCommand) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the poses of the reference's anchor and of the robot's bodies in the robot's anchor.

    Returns:
        Positions in m, ``(num_envs, 1 + num_bodies, 3)``, and the first two columns of rotation
        matrices, row by row, ``(num_envs, 1 + num_bodies, 6)``.
    """

    def compute() -> tuple[torch.Tensor, torch.Tensor]:
        reference = motion.anchor_pos_w.unsqueeze(1), motion.anchor_quat_w.unsqueeze(1)
        pos = torch.cat((reference[0], motion.robot_body_pos_w), dim=1)
        quat = torch.cat((reference[1], motion.robot_body_quat_w), dim=1)
        pos, quat = subtract_frame_transforms(
            motion.robot_anchor_pos_w.unsqueeze(1),
            motion.robot_anchor_quat_w.unsqueeze(1),
            pos,
            quat,
        )
        return pos, axes_from_quat(quat).contiguous()

    found: tuple[torch.Tensor, torch.Tensor] = motion.once("in_anchor", compute)
    return found
