"""Courses of parkour: obstacles across the way from the centre of a tile to its ends along x.

Kinds after Cheng et al. 2023, "Extreme Parkour with Legged Robots" (arXiv 2309.14341), with courses
of gaps (0.1 to 0.8 m wide by difficulty), of hurdles (0.1 to 0.4 m high) and of steps (0.1 to
0.45 m; legged_gym/utils/terrain.py of chengxuxin/extreme-parkour). The hardest sizes were passed by
the robots of Zhuang et al. 2023, "Robot Parkour Learning" (arXiv 2309.05665, figure 1): gaps of
0.6 m and obstacles of 0.4 m. Their walls are vertical; ours are ramps one cell wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from envlab.envs.terrain.sub_terrains import Range, SubTerrainCfg
from envlab.envs.terrain.tile import Tile, between


@dataclass(kw_only=True)
class ParkourTerrainCfg(SubTerrainCfg):
    """A kind of course: the same obstacles on both sides of the start."""

    num_obstacles: int = 2
    """Obstacles on the way from the start to an end of the tile."""
    platform_width: float = 1.6
    """Length of the level ground around the start along x, in m."""
    run_up: float = 0.6
    """Level ground at the end of the tile, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        room = 0.5 * (tile.size[0] - self.platform_width) - self.run_up
        length = self.length(difficulty)
        self.require(
            self.num_obstacles > 0 and length <= room / max(self.num_obstacles, 1) - 0.2,
            f"{self.num_obstacles} obstacles of {length:.3g} m do not fit into {room:.3g} m, the "
            "way from the platform to the end of a tile",
            "Make platform_width, num_obstacles or the obstacles smaller.",
        )
        x, y = tile.coordinates()
        distance = np.abs(x - 0.5 * tile.size[0]) - 0.5 * self.platform_width
        pitch = room / self.num_obstacles
        heights = np.zeros(tile.shape)
        for obstacle in range(self.num_obstacles):
            # One cell of tolerance, so that courses differ.
            start = pitch * obstacle + rng.uniform(0.1, pitch - length)
            along = distance - start
            profile = self.profile(along, length, difficulty)
            heights += np.broadcast_to(profile, tile.shape)
        inner = (y > 0.05) & (y < tile.size[1] - 0.05)
        return tile.flat_edged(np.where(inner, heights, 0.0)), 0.0

    def length(self, difficulty: float) -> float:
        """Return the length of an obstacle along x, in m."""
        raise NotImplementedError

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        """Return an obstacle's heights in m at distances from its start, of the shape of these."""
        raise NotImplementedError


@dataclass(kw_only=True)
class ParkourGapsTerrainCfg(ParkourTerrainCfg):
    """Gaps to leap over."""

    gap_width_range: Range = (0.1, 0.6)
    """Width of a gap's level bottom, in m; the ramps on both sides add up to a cell each."""
    gap_depth: float = 0.6
    """Depth of a gap, in m."""

    def length(self, difficulty: float) -> float:
        return between(self.gap_width_range, difficulty)

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        return np.where((along >= 0.0) & (along <= length + 1e-9), -self.gap_depth, 0.0)


@dataclass(kw_only=True)
class ParkourHurdlesTerrainCfg(ParkourTerrainCfg):
    """Hurdles to jump over."""

    hurdle_height_range: Range = (0.1, 0.4)
    """Height of a hurdle, in m."""
    thickness: float = 0.2
    """Length of its top along x, in m."""

    def length(self, difficulty: float) -> float:
        return self.thickness

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        height = between(self.hurdle_height_range, difficulty)
        return np.where((along >= 0.0) & (along <= length + 1e-9), height, 0.0)


@dataclass(kw_only=True)
class ParkourStepsTerrainCfg(ParkourTerrainCfg):
    """Blocks of two steps to climb up and jump down."""

    step_height_range: Range = (0.1, 0.4)
    """Height of a block, which is reached by two steps, in m."""
    block_length: float = 0.9
    """Length of a block along x, in m: a third each for the first step, the top and the last."""

    def length(self, difficulty: float) -> float:
        return self.block_length

    def profile(self, along: np.ndarray, length: float, difficulty: float) -> np.ndarray:
        height = between(self.step_height_range, difficulty)
        third = length / 3.0
        inside = (along >= 0.0) & (along <= length + 1e-9)
        top = (along >= third) & (along <= 2.0 * third)
        return np.where(inside, np.where(top, height, 0.5 * height), 0.0)
