"""The ground below a robot, as Isaac Lab's height scanner measures it: ``RayCasterCfg``.

For rays in other directions, and against what moves, see :mod:`envlab.envs.ray_sensor`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.envs.managers.sensor import InstantSensor, PeriodicSensorCfg
from envlab.envs.math import heading
from envlab.envs.ray_patterns import GridPatternCfg
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class RayCasterCfg(PeriodicSensorCfg):
    """Vertical rays from a grid that follows the robot and turns with its yaw alone."""

    entity: str = "robot"
    """The thing that the grid follows."""
    body_name: str = ""
    """A body of it, which needs ``xpos`` and ``xquat`` in ``env.sim.data_fields``; empty: its
    root."""
    pattern_cfg: GridPatternCfg = field(default_factory=GridPatternCfg)
    """Grid from which rays start."""
    offset: tuple[float, float, float] = (0.0, 0.0, 20.0)
    """Centre of the grid from the root or body, in m."""
    method: Literal["lookup", "rays"] = "lookup"
    """``lookup`` reads the ground's height below each point: 7 times faster than ``rays`` on a CPU,
    with the same results."""

    def build(self, env: VectorEnv) -> RayCaster:
        return RayCaster(self, env)


class RayCaster(InstantSensor):
    """See :class:`RayCasterCfg`. On a plane the ground is at height 0."""

    def __init__(self, cfg: RayCasterCfg, env: VectorEnv) -> None:
        """Look up the body.

        Raises:
            ConfigurationError: If there is none, or the grid has no points or another direction.
        """
        super().__init__(cfg, env)
        if tuple(cfg.pattern_cfg.direction) != (0.0, 0.0, -1.0):
            raise ConfigurationError(
                f"A RayCasterCfg's grid has the direction {list(cfg.pattern_cfg.direction)}, but "
                "its rays go straight down. For others, use a RayCastSensorCfg."
            )
        self.cfg = cfg
        names = {"body_names": cfg.body_name} if cfg.body_name else {}
        self._frame = resolve_entity(SceneEntityCfg(cfg.entity, **names), env.sim.model, env.device)
        centre = torch.tensor(cfg.offset[:2]).unsqueeze(1)
        self.grid = (cfg.pattern_cfg.points() + centre).to(env.device)
        """The points' x and y from the frame, in m, ``(2, num_rays)``."""
        self._down = torch.tensor([0.0, 0.0, -1.0], device=env.device)

    @property
    def num_rays(self) -> int:
        """Number of points."""
        return self.grid.shape[1]

    @property
    def pos_w(self) -> torch.Tensor:
        """Position of the root or body, in m, ``(num_envs, 3)``."""
        return self.measured()["pos"]

    @property
    def quat_w(self) -> torch.Tensor:
        """Its orientation, (w, x, y, z), ``(num_envs, 4)``."""
        return self.measured()["quat"]

    @property
    def ground_heights(self) -> torch.Tensor:
        """Height of the ground below each point, in m, else inf; ``(num_envs, num_rays)``."""
        return self.measured()["heights"]

    @property
    def ray_hits_w(self) -> torch.Tensor:
        """Where rays hit the ground, in m in the world, ``(num_envs, num_rays, 3)``."""
        x, y = self._points(self.pos_w, self.quat_w)
        return torch.stack((x, y, self.ground_heights), dim=2)

    def clearances(self, offset: float = 0.0) -> torch.Tensor:
        """Return how much higher the root or body is, less ``offset``, in m.

        Returns:
            ``(num_envs, num_rays)``.
        """
        return self.pos_w[:, 2:] - offset - self.ground_heights

    def present(self) -> dict[str, torch.Tensor]:
        pos, quat = self._pose()
        return {"pos": pos, "quat": quat, "heights": self._below(pos, quat)}

    def _pose(self) -> tuple[torch.Tensor, torch.Tensor]:
        frame, data = self._frame, self._env.sim.data
        ids = frame.body_ids
        if self.cfg.body_name and isinstance(ids, slice) and ids.start != frame.root_body:
            return data.xpos[:, ids.start], data.xquat[:, ids.start]
        return data.qpos[:, frame.root_pos], data.qpos[:, frame.root_quat]

    def _below(self, pos: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
        terrain = self._env.terrain
        if terrain is None:
            return torch.zeros_like(pos[:, 2:]).expand(-1, self.num_rays)
        x, y = self._points(pos, quat)
        if self.cfg.method == "lookup":
            return terrain.heights_at(x, y)
        start = pos[:, 2:] + self.cfg.offset[2]
        origins = torch.stack((x, y, start.expand_as(x)), dim=2)
        down = self._down.expand_as(origins)
        distance, _ = self._env.sim.rays(origins, down, geom_groups=[terrain.geom_group])
        return torch.where(distance < 0.0, torch.inf, start - distance)

    def _points(self, pos: torch.Tensor, quat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the points' x and y in the world, ``(num_envs, num_rays)`` each."""
        cos, sin = heading(quat.unsqueeze(1))
        x = pos[:, :1] + (cos * self.grid[0] - sin * self.grid[1])
        y = pos[:, 1:2] + (sin * self.grid[0] + cos * self.grid[1])
        return x, y
