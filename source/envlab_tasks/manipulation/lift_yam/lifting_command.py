"""The command to lift a cube to a place, which also puts the cube somewhere; mjlab 1.6.0's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_sphere
from envlab.envs.masks import assign, clear
from envlab.envs.math import quat_from_euler_xyz
from envlab.envs.random import RandomStream
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

FIXED_TARGET_M = (0.4, 0.0, 0.3)
"""The place of ``difficulty="fixed"``, from the environment's origin."""


@dataclass(kw_only=True)
class TargetPositionRangeCfg:
    """Bounds of the place to lift to, from the environment's origin, in m."""

    x: tuple[float, float] = (0.3, 0.5)
    y: tuple[float, float] = (-0.2, 0.2)
    z: tuple[float, float] = (0.2, 0.4)


@dataclass(kw_only=True)
class ObjectPoseRangeCfg:
    """Bounds of where a cube is put, from the environment's origin, in m, and its turn in rad."""

    x: tuple[float, float] = (0.3, 0.35)
    y: tuple[float, float] = (-0.1, 0.1)
    z: tuple[float, float] = (0.02, 0.05)
    yaw: tuple[float, float] = (-math.pi, math.pi)


@dataclass(kw_only=True)
class LiftingCommandCfg(CommandTermCfg):
    """A place for one of some cubes; each draw puts all of them somewhere, at rest.

    The command is ``(num_envs, 3)``: the place in the world, in m.
    """

    entity_names: list[str]
    """The cubes, each with a free joint, of which each draw chooses one."""
    success_threshold: float = 0.05
    """Distance from the place, in m, below which a cube has reached it."""
    difficulty: Literal["fixed", "dynamic"] = "fixed"
    """Whether the place is the same in all episodes, or drawn."""
    target_position_range: TargetPositionRangeCfg = field(default_factory=TargetPositionRangeCfg)
    """Where the place may be, if it is drawn."""
    object_pose_range: ObjectPoseRangeCfg = field(default_factory=ObjectPoseRangeCfg)
    """Where cubes may be put."""

    def build(self, env: VectorEnv) -> LiftingCommand:
        return LiftingCommand(self, env)


class LiftingCommand(CommandTerm):
    """The term of a :class:`LiftingCommandCfg`.

    Its metrics ``position_error`` (m), ``object_height`` (m) and ``at_goal`` are measured when the
    episode ends; ``episode_success`` is 1 if the cube was at the place since that was drawn.

    Attributes:
        selection: The place of the chosen cube among ``entity_names``, int64 ``(num_envs,)``.
    """

    STATE = State(per_env=("selection",))
    cfg: LiftingCommandCfg

    def __init__(self, cfg: LiftingCommandCfg, env: VectorEnv) -> None:
        super().__init__(cfg, env)
        if not cfg.entity_names:
            raise ConfigurationError(
                "A LiftingCommandCfg has no entity_names, but needs at least one thing to lift."
            )
        self.cubes = [
            resolve_entity(SceneEntityCfg(name), env.sim.model, env.device)
            for name in cfg.entity_names
        ]
        self._columns = torch.tensor(
            [[*range(cube.root_pos.start, cube.root_pos.stop)] for cube in self.cubes],
            device=env.device,
        )
        self.selection = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self.command = torch.zeros(env.num_envs, 3, device=env.device)
        self._metrics = self.make_metrics(
            "position_error", "object_height", "at_goal", "episode_success"
        )

    def object_pos(self) -> torch.Tensor:
        """Return where the chosen cubes are in the world, in m, ``(num_envs, 3)``."""
        return self.env.sim.data.qpos.gather(1, self._columns[self.selection])

    def position_error(self) -> torch.Tensor:
        """Return the chosen cubes' distances from their places, in m, ``(num_envs,)``."""
        return (self.command - self.object_pos()).norm(dim=1)

    def is_at_goal(self) -> torch.Tensor:
        """Return whether the chosen cubes are at their places, bool ``(num_envs,)``."""
        return self.position_error() < self.cfg.success_threshold

    def resample_at_reset(self, mask: torch.Tensor, stream: RandomStream) -> None:
        self._draw(mask, stream, self.env.reset_qpos, self.env.reset_qvel)

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        qpos, qvel = self.env.sim.data.qpos.clone(), self.env.sim.data.qvel.clone()
        self._draw(mask, stream, qpos, qvel)
        self.env.sim.reset(mask, qpos, qvel)

    def _draw(
        self, mask: torch.Tensor, stream: RandomStream, qpos: torch.Tensor, qvel: torch.Tensor
    ) -> None:
        """Draw cubes and places, and write the cubes' states into ``qpos`` and ``qvel``."""
        cfg = self.cfg
        to, start = cfg.target_position_range, cfg.object_pose_range
        poses = [start.x, start.y, start.z, start.yaw] * len(self.cubes)
        drawn = stream.ranges([(0.0, len(self.cubes)), to.x, to.y, to.z, *poses], mask)
        # The product of a draw below 1 and the number may round up to the number.
        chosen = drawn[:, 0].long().clamp(max=len(self.cubes) - 1)
        place = drawn[:, 1:4]
        if cfg.difficulty == "fixed":
            place = place.new_tensor(FIXED_TARGET_M).expand_as(place)
        assign(self.selection, mask, chosen)
        assign(self.command, mask, place + self.env.env_origins)
        clear(self._metrics[3], mask)
        for index, cube in enumerate(self.cubes):
            pos, yaw = drawn[:, 4 + 4 * index : 8 + 4 * index].split((3, 1), dim=1)
            zero = torch.zeros_like(yaw[:, 0])
            qpos[:, cube.root_pos] = torch.where(
                mask.unsqueeze(1), pos + self.env.env_origins, qpos[:, cube.root_pos]
            )
            quat = quat_from_euler_xyz(zero, zero, yaw[:, 0])
            qpos[:, cube.root_quat] = torch.where(mask.unsqueeze(1), quat, qpos[:, cube.root_quat])
            for part in (cube.root_lin_vel, cube.root_ang_vel):
                qvel[:, part] = qvel[:, part] * ~mask.unsqueeze(1)

    def update(self) -> None:
        at_goal = self.is_at_goal().float()
        self._metrics[0].copy_(self.position_error())
        self._metrics[1].copy_(self.object_pos()[:, 2])
        self._metrics[2].copy_(at_goal)
        torch.maximum(self._metrics[3], at_goal, out=self._metrics[3])

    def bounds(self) -> dict[str, tuple[float, float]]:
        to = self.cfg.target_position_range
        return {"x (m)": to.x, "y (m)": to.y, "z (m)": to.z}

    def hold(self, values: Sequence[float]) -> None:
        self.command.copy_(self.command.new_tensor(values) + self.env.env_origins)
        self.time_left.fill_(self.cfg.resampling_time_range[1])

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        place = self.command[0].cpu().numpy()
        add_sphere(scene, place, radius=0.03, rgba=(1.0, 0.5, 0.0, 0.3))
        if len(self.cubes) > 1:
            above = self.object_pos()[0].cpu().numpy() + np.array([0.0, 0.0, 0.04])
            add_sphere(scene, above, radius=0.01, rgba=(1.0, 0.0, 0.0, 1.0))
