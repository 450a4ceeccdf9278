"""Commands drawn uniformly: of any values, and of a body's pose; and no command."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_frame, add_sphere
from envlab.envs.math import (
    combine_frame_transforms,
    quat_error_magnitude,
    quat_from_angles,
    quat_unique,
)
from envlab.envs.mdp.root import base_pose, body_poses
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class UniformCommandCfg(CommandTermCfg):
    """A vector whose elements are drawn uniformly, each from its own range."""

    ranges: list[tuple[float, float]]
    """Bounds of each element."""
    marker_height_m: float | None = None
    """Height at which pictures show a command that is a point (x, y); null: they do not."""

    def build(self, env: VectorEnv) -> UniformCommand:
        return UniformCommand(self, env)


class UniformCommand(CommandTerm):
    """The term of a :class:`UniformCommandCfg`."""

    cfg: UniformCommandCfg

    def __init__(self, cfg: UniformCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self.command = torch.zeros(env.num_envs, len(cfg.ranges), device=env.device)

    def bounds(self) -> dict[str, tuple[float, float]]:
        return {f"element {index}": bounds for index, bounds in enumerate(self.cfg.ranges)}

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        if self.cfg.marker_height_m is not None:
            point = (*self.command[0, :2].tolist(), self.cfg.marker_height_m)
            origin = self.env.env_origins[0].cpu().numpy()
            add_sphere(scene, origin + np.array(point), radius=0.04, rgba=(0.95, 0.75, 0.1, 0.8))

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        drawn = stream.ranges(self.cfg.ranges, mask)
        self.command.copy_(torch.where(mask.unsqueeze(1), drawn, self.command))


@dataclass(kw_only=True)
class NullCommandCfg(CommandTermCfg):
    """No command, for tasks whose configuration must have one; to read it is an error."""

    resampling_time_range: tuple[float, float] = (math.inf, math.inf)

    def build(self, env: VectorEnv) -> NullCommand:
        return NullCommand(self, env)


class NoCommand(ConfigurationError, AttributeError):
    """The command of a :class:`NullCommandCfg` was read; ``hasattr`` treats it as missing."""


class NullCommand(CommandTerm):
    """The term of a :class:`NullCommandCfg`."""

    is_drawn_when_due = False

    @property
    def command(self) -> torch.Tensor:  # type: ignore[override]
        """Nothing.

        Raises:
            NoCommand: Always.
        """
        raise NoCommand(
            "A term reads the command of a NullCommandCfg, which has none. Leave out the terms "
            "that read it, or choose another command."
        )

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        pass


_ROBOT = SceneEntityCfg("robot")


@dataclass(kw_only=True)
class PoseRangesCfg:
    """Bounds of a pose: a position in m, and rotations about x, then y, then z, in rad."""

    pos_x: tuple[float, float] = (0.0, 0.0)
    pos_y: tuple[float, float] = (0.0, 0.0)
    pos_z: tuple[float, float] = (0.0, 0.0)
    roll: tuple[float, float] = (0.0, 0.0)
    pitch: tuple[float, float] = (0.0, 0.0)
    yaw: tuple[float, float] = (0.0, 0.0)

    def bounds(self) -> list[tuple[float, float]]:
        """Return the six bounds in this order."""
        return [self.pos_x, self.pos_y, self.pos_z, self.roll, self.pitch, self.yaw]


@dataclass(kw_only=True)
class UniformPoseCommandCfg(CommandTermCfg):
    """A pose in the frame of the robot's topmost body, each coordinate drawn uniformly.

    The command is ``(num_envs, 7)``: position in m, then the orientation as (w, x, y, z). It
    needs ``xpos`` and ``xquat`` in ``env.sim.data_fields``.
    """

    asset_name: str = "robot"
    """The robot."""
    body_name: str
    """Body that should reach the pose, for the metrics ``position_error`` (m) and
    ``orientation_error`` (rad), measured when the episode ends."""
    make_quat_unique: bool = False
    """Whether quaternions have a scalar part w that is not negative."""
    ranges: PoseRangesCfg = field(default_factory=PoseRangesCfg)
    """Ranges of the draws."""

    def build(self, env: VectorEnv) -> UniformPoseCommand:
        return UniformPoseCommand(self, env)


class UniformPoseCommand(CommandTerm):
    """The term of a :class:`UniformPoseCommandCfg`; its command is position and (w, x, y, z)."""

    cfg: UniformPoseCommandCfg

    def __init__(self, cfg: UniformPoseCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        entity = SceneEntityCfg(cfg.asset_name, body_names=cfg.body_name)
        self._entity = resolve_entity(entity, env.sim.model, env.device)
        if len(self._entity.body_names) != 1:
            raise ConfigurationError(
                f"The body_name {cfg.body_name!r} of a pose command matches "
                f"{', '.join(self._entity.body_names)}, but must match one body."
            )
        self.command = torch.zeros(env.num_envs, 7, device=env.device)
        self.command[:, 3] = 1.0
        self.metrics = {
            name: torch.zeros(env.num_envs, device=env.device)
            for name in ("position_error", "orientation_error")
        }

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        pose = self._pose(stream.ranges(self.cfg.ranges.bounds(), mask))
        self.command.copy_(torch.where(mask.unsqueeze(1), pose, self.command))

    def bounds(self) -> dict[str, tuple[float, float]]:
        units = (*["(m)"] * 3, *["(rad)"] * 3)
        names = (one.name for one in fields(PoseRangesCfg))
        named = zip(names, units, self.cfg.ranges.bounds(), strict=True)
        return {f"{name} {unit}": bounds for name, unit, bounds in named}

    def hold(self, values: Sequence[float]) -> None:
        super().hold(self._pose(self.command.new_tensor(values).unsqueeze(0))[0].tolist())

    def _pose(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return poses ``(n, 7)`` for positions and rotations about x, y and z, ``(n, 6)``."""
        quat = quat_from_angles(coordinates[:, 3:])
        if self.cfg.make_quat_unique:
            quat = quat_unique(quat)
        return torch.cat((coordinates[:, :3], quat), dim=1)

    def update(self) -> None:
        position, orientation = _errors(self.env, self.command, self._entity)
        self.metrics["position_error"].copy_(position)
        self.metrics["orientation_error"].copy_(orientation)

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        pos, quat = (
            values[0].cpu().numpy() for values in _goal(self.env, self.command, self._entity)
        )
        add_frame(scene, pos, quat, length=0.1)


def position_command_error(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return the distance of the body of ``asset_cfg`` from the commanded position, in m."""
    command = env.command_manager.get_command(command_name)
    return _errors(env, command, asset_cfg)[0]


def position_is_reached(
    env: ManagerEnv, threshold: float, command_name: str, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return whether a body is within ``threshold``, in m, of the commanded position."""
    return position_command_error(env, command_name, asset_cfg) < threshold


def position_command_error_tanh(
    env: ManagerEnv, std: float, command_name: str, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return 1 at the commanded position, falling to 0 over some ``std``, in m."""
    return 1.0 - torch.tanh(position_command_error(env, command_name, asset_cfg) / std)


def orientation_command_error(
    env: ManagerEnv, command_name: str, asset_cfg: SceneEntity
) -> torch.Tensor:
    """Return the angle between the body of ``asset_cfg`` and the commanded one, in rad."""
    command = env.command_manager.get_command(command_name)
    return _errors(env, command, asset_cfg)[1]


def _goal(
    env: VectorEnv, command: torch.Tensor, entity: SceneEntity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the commanded pose in the world."""
    return combine_frame_transforms(*base_pose(env, entity), command[:, :3], command[:, 3:])


def _errors(
    env: VectorEnv, command: torch.Tensor, entity: SceneEntity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distance of the entity's first body from the commanded pose, in m and rad."""
    pos, quat = (values[:, 0] for values in body_poses(env, entity))
    goal_pos, goal_quat = _goal(env, command, entity)
    return (goal_pos - pos).norm(dim=1), quat_error_magnitude(goal_quat, quat)
