"""Terms of tasks in which a robot moves an object that has a free joint, or turns it in its hand.

An arm's grasp point is a site, selected by ``ee_frame_cfg``; it needs ``site_xpos`` in
``env.sim.data_fields``, terms in the robot's frame need ``xpos`` and ``xquat``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, columns, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_body
from envlab.envs.masks import assign
from envlab.envs.math import (
    combine_frame_transforms,
    quat_apply_inverse,
    quat_conjugate,
    quat_error_magnitude,
    quat_from_euler_xyz,
    quat_mul,
    quat_unique,
)
from envlab.envs.mdp.events import joint_limits
from envlab.envs.mdp.root import base_pose, site_positions
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv


_ROBOT: Any = SceneEntityCfg("robot")
_OBJECT: Any = SceneEntityCfg("object")
_EE_FRAME: Any = SceneEntityCfg("robot", site_names="ee")


def object_position_in_robot_root_frame(
    env: ManagerEnv, robot_cfg: SceneEntity = _ROBOT, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return the object's position in the frame of the robot's topmost body, in m."""
    pos, quat = base_pose(env, robot_cfg)
    return quat_apply_inverse(quat, env.sim.data.qpos[:, object_cfg.root_pos] - pos)


def object_ee_distance(
    env: ManagerEnv,
    std: float,
    object_cfg: SceneEntity = _OBJECT,
    ee_frame_cfg: SceneEntity = _EE_FRAME,
) -> torch.Tensor:
    """Return 1 where the grasp point is in the object, falling to 0 over some ``std``, in m."""
    ee_pos = site_positions(env, ee_frame_cfg)[:, 0]
    distance = (env.sim.data.qpos[:, object_cfg.root_pos] - ee_pos).norm(dim=1)
    return 1.0 - torch.tanh(distance / std)


def object_is_lifted(
    env: ManagerEnv, minimal_height: float, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return 1 where the object is higher in the world than ``minimal_height``, in m, else 0."""
    return (env.sim.data.qpos[:, object_cfg.root_pos][:, 2] > minimal_height).float()


def object_goal_distance(
    env: ManagerEnv,
    std: float,
    minimal_height: float,
    command_name: str,
    robot_cfg: SceneEntity = _ROBOT,
    object_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return 1 where a lifted object is at its goal, falling to 0 over some ``std``, in m.

    It is 0 for an object that is not higher than ``minimal_height``, in m.
    """
    distance = _distance_from_goal(env, command_name, robot_cfg, object_cfg)
    lifted = object_is_lifted(env, minimal_height, object_cfg)
    return lifted * (1.0 - torch.tanh(distance / std))


def object_is_at_goal(
    env: ManagerEnv,
    threshold: float,
    minimal_height: float,
    command_name: str,
    robot_cfg: SceneEntity = _ROBOT,
    object_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return 1 where a lifted object is within ``threshold``, in m, of its goal, else 0."""
    distance = _distance_from_goal(env, command_name, robot_cfg, object_cfg)
    return object_is_lifted(env, minimal_height, object_cfg) * (distance < threshold)


def _distance_from_goal(
    env: ManagerEnv, command_name: str, robot_cfg: SceneEntity, object_cfg: SceneEntity
) -> torch.Tensor:
    command = env.command_manager.get_command(command_name)
    goal, _ = combine_frame_transforms(*base_pose(env, robot_cfg), command[:, :3], command[:, 3:])
    return (goal - env.sim.data.qpos[:, object_cfg.root_pos]).norm(dim=1)


@dataclass(kw_only=True)
class InHandReOrientationCommandCfg(CommandTermCfg):
    """A pose for a free body: near its start, with a random orientation.

    The command is ``(num_envs, 7)``: position in m from the environment's origin, then the
    orientation as (w, x, y, z).
    """

    resampling_time_range: tuple[float, float] = (1e6, 1e6)
    """Goals are drawn by success rather than by time."""
    asset_name: str = "object"
    """The body."""
    init_pos_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The goal's position, relative to the body's start, in m."""
    make_quat_unique: bool = False
    """Whether goals have a scalar part w that is not negative."""
    orientation_success_threshold: float
    """Angle to the goal, in rad, within which it counts as reached."""
    update_goal_on_success: bool = True
    """Whether a new goal follows in the same episode when the goal is reached."""
    marker_pos_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position of the goal in pictures, relative to its own, in m."""

    def build(self, env: VectorEnv) -> InHandReOrientationCommand:
        return InHandReOrientationCommand(self, env)


class InHandReOrientationCommand(CommandTerm):
    """The term of an :class:`InHandReOrientationCommandCfg`.

    Metrics: ``orientation_error`` in rad and ``position_error`` in m of the last step, and
    ``consecutive_success``, the number of goals reached in the episode.
    """

    cfg: InHandReOrientationCommandCfg

    def __init__(self, cfg: InHandReOrientationCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self._object = resolve_entity(SceneEntityCfg(cfg.asset_name), env.sim.model, env.device)
        offset = torch.tensor(cfg.init_pos_offset, device=env.device)
        self.command = torch.zeros(env.num_envs, 7, device=env.device)
        self.command[:, :3] = env.default_qpos[:, self._object.root_pos] + offset
        self.command[:, 3] = 1.0
        for name in ("orientation_error", "position_error", "consecutive_success"):
            self.metrics[name] = torch.zeros(env.num_envs, device=env.device)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        x, y = stream.uniform(-math.pi, math.pi, 2).unbind(1)
        turn = torch.zeros_like(x)
        # About the y axis, then the x axis, as in Isaac Lab: not quite uniform over rotations.
        goal = quat_mul(
            quat_from_euler_xyz(x, turn, turn),
            quat_from_euler_xyz(turn, y, turn),
        )
        assign(self.command[:, 3:], mask, quat_unique(goal) if self.cfg.make_quat_unique else goal)

    def update(self) -> None:
        qpos = self.env.sim.data.qpos
        error = quat_error_magnitude(qpos[:, self._object.root_quat], self.command[:, 3:])
        distance = qpos[:, self._object.root_pos] - self.env.env_origins - self.command[:, :3]
        reached = error < self.cfg.orientation_success_threshold
        self.metrics["orientation_error"].copy_(error)
        self.metrics["position_error"].copy_(torch.linalg.vector_norm(distance, dim=1))
        self.metrics["consecutive_success"] += reached
        if self.cfg.update_goal_on_success:
            self.time_left.masked_fill_(reached, 0.0)  # which makes a new goal due

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        pos, quat = self.command[0].cpu().double().split((3, 4))
        offset = np.asarray(self.cfg.marker_pos_offset) + self.env.env_origins[0].cpu().numpy()
        add_body(scene, self.env.sim.model, self._object.root_body, pos.numpy() + offset, quat)


def goal_quat_diff(
    env: ManagerEnv,
    command_name: str,
    make_quat_unique: bool = False,
    asset_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return the rotation from the goal to the object, (w, x, y, z), ``(num_envs, 4)``."""
    goal = env.command_manager.get_command(command_name)[:, 3:]
    difference = quat_mul(env.sim.data.qpos[:, asset_cfg.root_quat], quat_conjugate(goal))
    return quat_unique(difference) if make_quat_unique else difference


def track_orientation_inv_l2(
    env: ManagerEnv, command_name: str, rot_eps: float = 1e-3, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return ``1 / (angle to the goal + rot_eps)``, angles in rad."""
    return 1.0 / (_angle_to_goal(env, command_name, object_cfg) + rot_eps)


def success_bonus(
    env: ManagerEnv, command_name: str, object_cfg: SceneEntity = _OBJECT
) -> torch.Tensor:
    """Return 1 where the goal is reached, else 0."""
    angle = _angle_to_goal(env, command_name, object_cfg)
    return (angle <= _goal(env, command_name).cfg.orientation_success_threshold).float()


def max_consecutive_success(env: ManagerEnv, num_success: int, command_name: str) -> torch.Tensor:
    """Return whether the episode has reached ``num_success`` goals."""
    return _goal(env, command_name).metrics["consecutive_success"] >= num_success


def share_of_goals_reached(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the goals that an episode has reached, over those it has had, ``n / (n + 1)``."""
    reached = _goal(env, command_name).metrics["consecutive_success"]
    return reached / (reached + 1.0)


def object_away_from_robot(
    env: ManagerEnv,
    threshold: float,
    asset_cfg: SceneEntity = _ROBOT,
    object_cfg: SceneEntity = _OBJECT,
) -> torch.Tensor:
    """Return whether the object is further than ``threshold``, in m, from a fixed robot."""
    key = ("fixed_root_pos", asset_cfg.root_body)
    if key not in env.constants:
        position = np.array(env.sim.model.body_pos[asset_cfg.root_body])
        env.constants[key] = torch.as_tensor(position, dtype=torch.float32, device=env.device)
    distance = env.sim.data.qpos[:, object_cfg.root_pos] - env.constants[key]
    return torch.linalg.vector_norm(distance, dim=1) > threshold


def reset_joints_within_limits_range(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float] = (0.0, 0.0),
    use_default_offset: bool = False,
    operation: str = "scale",
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Reset hinge and slide joints to positions drawn from a part of their range.

    Args:
        env: The environment.
        mask: Environments to change, bool ``(num_envs,)``.
        stream: The term's random stream.
        position_range: For ``scale``, factors of the lower and the upper limit; for ``abs``, bounds
            in rad or m.
        velocity_range: Bounds of the velocity, in rad/s or m/s.
        use_default_offset: Whether the default positions are added.
        operation: ``scale`` or ``abs``.
        asset_cfg: The joints.

    Raises:
        ConfigurationError: For another operation.
    """
    low, high = joint_limits(env, asset_cfg)
    if operation == "scale":
        lower, upper = low * position_range[0], high * position_range[1]
    elif operation == "abs":
        lower, upper = (
            torch.full_like(low, position_range[0]),
            torch.full_like(high, position_range[1]),
        )
    else:
        raise ConfigurationError(f"An operation is {operation!r}, but must be scale or abs.")
    defaults = columns(env.default_qpos, asset_cfg.qpos_ids)
    if use_default_offset:
        lower, upper = lower + defaults, upper + defaults
    lower, upper = lower.clamp(low, high), upper.clamp(low, high)
    num = len(asset_cfg.joint_names)
    drawn = stream.ranges([(0.0, 1.0)] * num + [tuple(velocity_range)] * num, mask)  # type: ignore[list-item]
    env.reset_qpos[:, asset_cfg.qpos_ids] = lower + drawn[:, :num] * (upper - lower)
    env.reset_qvel[:, asset_cfg.qvel_ids] = drawn[:, num:]


def _goal(env: ManagerEnv, command_name: str) -> InHandReOrientationCommand:
    term = env.command_manager.get_term(command_name)
    if not isinstance(term, InHandReOrientationCommand):
        raise ConfigurationError(
            f"The command {command_name!r} is a {type(term).__name__}, but must be an "
            "InHandReOrientationCommand."
        )
    return term


def _angle_to_goal(env: ManagerEnv, command_name: str, entity: SceneEntity) -> torch.Tensor:
    goal = env.command_manager.get_command(command_name)[:, 3:]
    return quat_error_magnitude(env.sim.data.qpos[:, entity.root_quat], goal)
