"""Command terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch

from envlab.envs.managers.command import CommandTerm, CommandTermCfg
from envlab.envs.markers import add_sphere
from envlab.envs.random import RandomStream

if TYPE_CHECKING:
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
        self._ranges = cfg.ranges
        self.command = torch.zeros(env.num_envs, len(cfg.ranges), device=env.device)

    def bounds(self) -> dict[str, tuple[float, float]]:
        return {f"element {index}": bounds for index, bounds in enumerate(self._ranges)}

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        if self.cfg.marker_height_m is not None:
            point = (*self.command[0, :2].tolist(), self.cfg.marker_height_m)
            origin = self.env.env_origins[0].cpu().numpy()
            add_sphere(scene, origin + np.array(point), radius=0.04, rgba=(0.95, 0.75, 0.1, 0.8))

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        drawn = stream.ranges(self._ranges, mask)
        self.command.copy_(torch.where(mask.unsqueeze(1), drawn, self.command))
