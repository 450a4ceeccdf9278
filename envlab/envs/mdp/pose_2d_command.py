"""A target position on the ground for a robot to reach, and its heading at the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mujoco
import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_arrow
from envlab.envs.masks import assign
from envlab.envs.math import quat_apply_inverse, wrap_to_pi, yaw_from_quat, yaw_quat
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class Pose2dRangesCfg:
    """Bounds of the draws."""

    pos_x: tuple[float, float] = (0.0, 0.0)
    """Along the world's x from the environment's origin, in m."""
    pos_y: tuple[float, float] = (0.0, 0.0)
    """Along its y."""
    heading: tuple[float, float] = (-math.pi, math.pi)
    """Direction in the world, in rad; without ``simple_heading``."""


@dataclass(kw_only=True)
class UniformPose2dCommandCfg(CommandTermCfg):
    """A target position around the environment's origin, and a heading, drawn uniformly.

    The command is ``(num_envs, 4)``: the place, at the height of the robot's default pose, from the
    robot, in m, in the frame that turns with its yaw alone; and the remaining angle, in rad. It is
    renewed in each step.
    """

    asset_name: str = "robot"
    """The robot, with a free joint."""
    simple_heading: bool
    """Whether the heading points along the way to the target, or in the opposite direction if the
    robot is closer to facing that; it is then not drawn."""
    ranges: Pose2dRangesCfg = field(default_factory=Pose2dRangesCfg)
    """Ranges of the draws."""

    def build(self, env: VectorEnv) -> UniformPose2dCommand:
        return UniformPose2dCommand(self, env)


class UniformPose2dCommand(CommandTerm):
    """The term of a :class:`UniformPose2dCommandCfg`.

    Its metrics ``error_pos_2d`` (m) and ``error_heading`` (rad) are measured when the episode ends.
    """

    STATE = State(per_env=("position", "heading"))
    cfg: UniformPose2dCommandCfg
    mirror = ((0, 1, 2, 3), (1.0, -1.0, 1.0, -1.0))

    def __init__(self, cfg: UniformPose2dCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        self._robot = resolve_entity(SceneEntityCfg(cfg.asset_name), env.sim.model, env.device)
        self.command = torch.zeros(env.num_envs, 4, device=env.device)
        self.position = torch.zeros(env.num_envs, 3, device=env.device)
        """Commanded places in the world, in m."""
        self.heading = torch.zeros(env.num_envs, dtype=torch.float64, device=env.device)
        """Commanded directions in the world, in rad."""
        self._errors = self.make_metrics("error_pos_2d", "error_heading")
        self._height = env.default_qpos[:, self._robot.root_pos][:, 2:]

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        self._draw(mask, stream, self.env.sim.data.qpos)

    def resample_at_reset(self, mask: torch.Tensor, stream: RandomStream) -> None:
        self._draw(mask, stream, self.env.reset_qpos)

    def _draw(self, mask: torch.Tensor, stream: RandomStream, qpos: torch.Tensor) -> None:
        place, drawn = self._places(mask, stream)
        assign(self.position, mask, place)
        heading = drawn.double()
        if self.cfg.simple_heading:
            # In float64, as the heading of a velocity command.
            way = (self.position - qpos[:, self._robot.root_pos]).double()
            there = torch.atan2(way[:, 1], way[:, 0])
            back, yaw = wrap_to_pi(there + math.pi), self._yaw(qpos)
            is_ahead = wrap_to_pi(there - yaw).abs() < wrap_to_pi(back - yaw).abs()
            heading = torch.where(is_ahead, there, back)
        assign(self.heading, mask, heading)
        assign(self.command, mask, self._seen_from(qpos))

    def _places(
        self, mask: torch.Tensor, stream: RandomStream
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw places in the world, ``(num_envs, 3)``, and directions, ``(num_envs,)``."""
        ranges = self.cfg.ranges
        drawn = stream.ranges([ranges.pos_x, ranges.pos_y, ranges.heading], mask)
        place = torch.cat((drawn[:, :2], self._height.expand(len(drawn), 1)), dim=1)
        return place + self.env.env_origins, drawn[:, 2]

    def update(self) -> None:
        qpos = self.env.sim.data.qpos
        way = self.position[:, :2] - qpos[:, self._robot.root_pos][:, :2]
        torch.linalg.vector_norm(way, dim=1, out=self._errors[0])
        self._errors[1].copy_(wrap_to_pi(self.heading - self._yaw(qpos)).abs())

    def update_command(self) -> None:
        self.command.copy_(self._seen_from(self.env.sim.data.qpos))

    def bounds(self) -> dict[str, tuple[float, float]]:
        ranges = self.cfg.ranges
        found = {"x (m)": ranges.pos_x, "y (m)": ranges.pos_y}
        return found if self.cfg.simple_heading else {**found, "heading (rad)": ranges.heading}

    def hold(self, values: Sequence[float]) -> None:
        self.position[:, :2] = self.position.new_tensor(values[:2]) + self.env.env_origins[:, :2]
        if self.cfg.simple_heading:
            way = (self.position - self.env.sim.data.qpos[:, self._robot.root_pos]).double()
            self.heading.copy_(torch.atan2(way[:, 1], way[:, 0]))
        else:
            self.heading.fill_(values[2])
        self.update_command()
        self.time_left.fill_(self.cfg.resampling_time_range[1])

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        heading = float(self.heading[0])
        arrow = 0.4 * torch.tensor([math.cos(heading), math.sin(heading), 0.0])
        place = self.position[0].cpu().numpy()
        add_arrow(scene, place, arrow.numpy(), width=0.04, rgba=(0.2, 0.75, 0.3, 1.0))

    def _yaw(self, qpos: torch.Tensor) -> torch.Tensor:
        return yaw_from_quat(qpos[:, self._robot.root_quat].double())

    def _seen_from(self, qpos: torch.Tensor) -> torch.Tensor:
        """Return the command of robots at ``qpos``, ``(num_envs, 4)``."""
        way = self.position - qpos[:, self._robot.root_pos]
        ahead = quat_apply_inverse(yaw_quat(qpos[:, self._robot.root_quat]), way)
        angle = wrap_to_pi(self.heading - self._yaw(qpos)).float()
        return torch.cat((ahead, angle.unsqueeze(1)), dim=1)


@dataclass(kw_only=True)
class TerrainBasedPose2dCommandCfg(UniformPose2dCommandCfg):
    """A flat patch called ``target`` of the robot's tile, and a heading.

    The command is that of :class:`UniformPose2dCommandCfg`. Kinds of ground name such patches in
    ``flat_patch_sampling``; of ``ranges``, only ``heading`` counts.
    """

    def build(self, env: VectorEnv) -> TerrainBasedPose2dCommand:
        return TerrainBasedPose2dCommand(self, env)


class TerrainBasedPose2dCommand(UniformPose2dCommand):
    """The term of a :class:`TerrainBasedPose2dCommandCfg`."""

    def __init__(self, cfg: TerrainBasedPose2dCommandCfg, env: VectorEnv) -> None:
        """Check that there are patches.

        Raises:
            ConfigurationError: If there are none, or a range of places is given.
        """
        super().__init__(cfg, env)
        for name in ("pos_x", "pos_y"):
            if tuple(getattr(cfg.ranges, name)) != (0.0, 0.0):
                raise ConfigurationError(
                    f"ranges.{name} is {getattr(cfg.ranges, name)}, but the places of a "
                    "TerrainBasedPose2dCommandCfg are flat patches. Remove it, or use "
                    "UniformPose2dCommandCfg."
                )
        patches = {} if env.terrain is None else env.terrain.flat_patches
        if "target" not in patches:
            raise ConfigurationError(
                "TerrainBasedPose2dCommandCfg needs flat patches called target, but the ground has "
                f"{', '.join(patches) or 'none'}. Add target to flat_patch_sampling of a kind in "
                "env.scene.terrain.terrain_generator.sub_terrains, or use UniformPose2dCommandCfg."
            )

    def _places(
        self, mask: torch.Tensor, stream: RandomStream
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.env.terrain is not None
        chosen, heading = stream.ranges([(0.0, 1.0), self.cfg.ranges.heading], mask).unbind(1)
        place = self.env.terrain.patches("target", chosen)
        return torch.cat((place[:, :2], place[:, 2:] + self._height), dim=1), heading

    def bounds(self) -> dict[str, tuple[float, float]]:
        """Return those of the direction; a place is not for a user to say."""
        return {} if self.cfg.simple_heading else {"heading (rad)": self.cfg.ranges.heading}

    def hold(self, values: Sequence[float]) -> None:
        if values:
            self.heading.fill_(values[0])
        self.update_command()
        self.time_left.fill_(self.cfg.resampling_time_range[1])
