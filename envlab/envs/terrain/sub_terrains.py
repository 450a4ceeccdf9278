"""Kinds of ground, with Isaac Lab's names and numbers; each fills one tile of a height field.

Isaac Lab makes some of them of boxes (``Mesh...``), some of height fields (``Hf...``). Here all are
height fields: an upright wall becomes a ramp one cell wide, see ``docs/terrain.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from envlab.config import PositiveFloat
from envlab.envs.terrain.tile import Box, FlatPatchSamplingCfg, Tile, between, whole
from envlab.errors import ConfigurationError

Range = tuple[float, float]
"""The value of the easiest and of the hardest tile, unless a field says otherwise."""


@dataclass(kw_only=True)
class SubTerrainCfg:
    """A kind of ground; an override may remove it from a generator (``...boxes=null``)."""

    __removable__: ClassVar[bool] = True

    proportion: float = 1.0
    """Share of the tiles, relative to the other kinds."""
    flat_patch_sampling: dict[str, FlatPatchSamplingCfg] | None = None
    """Flat patches to find on each tile, by a name: ``init_pos`` are those of
    ``reset_root_state_from_terrain``."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Make one tile.

        Args:
            tile: Its grid.
            difficulty: 0 (easiest) to 1.
            rng: The source of random draws.

        Returns:
            Heights in m, ``tile.shape``, zero on the edges, and the height of the ground under a
            robot in the centre.
        """
        raise NotImplementedError

    def boxes(self, tile: Tile, difficulty: float) -> list[Box]:
        """Return boxes that are added to the heights, in m from a corner of the tile."""
        return []

    def require(self, fits: bool, what: str, mend: str) -> None:
        """Refuse sizes that are impossible for a tile.

        Raises:
            ConfigurationError: Unless ``fits``.
        """
        if not fits:
            raise ConfigurationError(f"{type(self).__name__}: {what}. {mend}")


@dataclass(kw_only=True)
class MeshPlaneTerrainCfg(SubTerrainCfg):
    """Flat ground."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        return np.zeros(tile.shape), 0.0


@dataclass(kw_only=True)
class HolesTerrainCfg(SubTerrainCfg):
    """Base of the kinds of which holes may leave a cross as wide as the platform."""

    holes: bool = False
    """Whether there are holes everywhere but on a cross as wide as the platform."""
    hole_depth: PositiveFloat = 1.0
    """Depth of the holes below the lowest ground, in m. Isaac Lab's have no bottom."""

    def dug(self, tile: Tile, heights: np.ndarray, width: float) -> np.ndarray:
        """Return heights with the holes, if there are any, and flat edges."""
        if self.holes:
            is_cross = tile.inside(width, np.inf) | tile.inside(np.inf, width)
            bottom = min(float(heights.min()), 0.0) - self.hole_depth
            heights = np.where(is_cross, heights, bottom)
        return tile.flat_edged(heights)


@dataclass(kw_only=True)
class MeshPyramidStairsTerrainCfg(HolesTerrainCfg):
    """Stairs up to a platform in the centre, from all four sides."""

    step_height_range: Range
    """Height of a step, in m."""
    step_width: float
    """Depth of a step, in m."""
    platform_width: float = 1.0
    """Minimum width of the platform, in m; the rest of the tile is added to it."""
    border_width: float = 0.0
    """Width of the flat ground around the stairs, in m."""

    sign: ClassVar[float] = 1.0

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        room = min(tile.size) - 2.0 * self.border_width - self.platform_width
        self.require(
            room >= 0.0 and self.step_width > 0.0,
            f"borders of {self.border_width} m, a platform of {self.platform_width} m and steps of "
            f"{self.step_width} m do not fit into tiles of {tile.size[0]} x {tile.size[1]} m",
            "Make the platform or the border smaller.",
        )
        num_steps = whole(room, 2.0 * self.step_width) + 1
        step_height = self.sign * between(self.step_height_range, difficulty)
        inwards = np.floor((tile.edge_distance() - self.border_width) / self.step_width + 1e-6)
        steps = np.clip(inwards + 1, 0, num_steps + 1)
        heights = self.dug(tile, steps * step_height, self.platform_width)
        return heights, (num_steps + 1) * step_height


@dataclass(kw_only=True)
class MeshInvertedPyramidStairsTerrainCfg(MeshPyramidStairsTerrainCfg):
    """Stairs down to a platform in the centre."""

    sign: ClassVar[float] = -1.0


@dataclass(kw_only=True)
class MeshRandomGridTerrainCfg(HolesTerrainCfg):
    """Square blocks of random heights around a platform."""

    grid_width: float
    """Width of a block, in m. Its sides are moved to the nearest vertices."""
    grid_height_range: Range
    """Blocks are up to this much higher or lower than the ground, in m."""
    platform_width: float = 1.0
    """Width of the platform, in m."""

    @property
    def least_border(self) -> float:
        """Minimum width of the flat ground around the blocks, in m."""
        return 0.0

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        room = [length - 2.0 * self.least_border for length in tile.size]
        num_blocks = whole(min(room), self.grid_width)
        border = 0.5 * (min(tile.size) - num_blocks * self.grid_width)
        self.require(
            num_blocks > 0 and border > 1e-6,
            f"blocks of {self.grid_width} m leave no border in tiles of {tile.size[0]} x "
            f"{tile.size[1]} m",
            "Change grid_width.",
        )
        height = between(self.grid_height_range, difficulty)
        shape = [whole(length, self.grid_width) for length in room]
        blocks = np.pad(rng.uniform(-height, height, shape), 1)
        x, y = tile.coordinates()
        column = _block(x, tile.size[0], shape[0], self.grid_width)
        row = _block(y, tile.size[1], shape[1], self.grid_width)
        heights = blocks[column, row]
        heights[tile.centre_distance() <= 0.5 * self.platform_width + 1e-6] = height
        return self.dug(tile, heights, self.platform_width), height


def _block(values: np.ndarray, length: float, number: int, width: float) -> np.ndarray:
    """Return the block of each coordinate among ``number`` centred ones, from 1; outside 0."""
    start = 0.5 * (length - number * width)
    index = np.floor((values - start) / width + 1e-6).astype(int) + 1
    return np.where((index < 1) | (index > number), 0, index)


@dataclass(kw_only=True)
class HfTerrainCfg(SubTerrainCfg):
    """Base of the kinds that Isaac Lab makes of height fields."""

    border_width: float = 0.0
    """Width of the flat border, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.require(
            0.0 <= 2.0 * self.border_width < min(tile.size) - 4.0 * tile.horizontal_scale,
            f"a border of {self.border_width} m does not fit into tiles of {tile.size[0]} x "
            f"{tile.size[1]} m",
            "Make border_width smaller.",
        )
        border = whole(self.border_width, tile.horizontal_scale) + 1
        rough = self.heights(tile.without_border(border), difficulty, rng)
        heights = np.pad(tile.rounded(rough), border)
        return heights, tile.top_of_centre(heights)

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        """Return heights in m, ``tile.shape``, of the part inside the border."""
        raise NotImplementedError


@dataclass(kw_only=True)
class HfRandomUniformTerrainCfg(HfTerrainCfg):
    """Noise: every vertex has one of several heights."""

    noise_range: Range
    """Lowest and highest height, in m, whatever the difficulty."""
    noise_step: float
    """Distance of two heights, in m."""

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        low, high = self.noise_range
        self.require(
            self.noise_step > 0.0 and low <= high,
            f"noise_range is {list(self.noise_range)} and noise_step {self.noise_step}, which is "
            "no range of heights",
            "Give [lowest, highest] and a step above 0.",
        )
        levels = low + self.noise_step * np.arange(whole(high - low, self.noise_step) + 1)
        return rng.choice(levels, tile.shape)


@dataclass(kw_only=True)
class HfPyramidSlopedTerrainCfg(HfTerrainCfg):
    """A hill with a platform on top."""

    slope_range: Range
    """Rise along the middle of a side, as a ratio."""
    platform_width: float = 1.0
    """Width of the platform, in m."""

    sign: ClassVar[float] = 1.0

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        self.require(
            self.platform_width < min(tile.size),
            f"a platform of {self.platform_width} m does not fit into tiles of {tile.size[0]} x "
            f"{tile.size[1]} m",
            "Make platform_width smaller.",
        )
        peak = between(self.slope_range, difficulty) * 0.5 * tile.size[0]

        def rise(values: np.ndarray, length: float) -> np.ndarray:
            return 1.0 - np.abs(2.0 * values / length - 1.0)

        x, y = tile.coordinates()
        corner = [0.5 * (length - self.platform_width) for length in tile.size]
        top = rise(np.array(corner[0]), tile.size[0]) * rise(np.array(corner[1]), tile.size[1])
        hill = np.minimum(rise(x, tile.size[0]) * rise(y, tile.size[1]), top)
        return self.sign * peak * hill


@dataclass(kw_only=True)
class HfInvertedPyramidSlopedTerrainCfg(HfPyramidSlopedTerrainCfg):
    """A hollow with a platform at its bottom."""

    sign: ClassVar[float] = -1.0


@dataclass(kw_only=True)
class HfWaveTerrainCfg(HfTerrainCfg):
    """Waves along x plus waves along y."""

    amplitude_range: Range
    """Height of a crest above a trough of the waves along one axis, in m."""
    num_waves: int = 1
    """Waves along each side of the tile."""

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        self.require(self.num_waves > 0, f"num_waves is {self.num_waves}", "Give 1 or more.")
        x, y = tile.coordinates()
        phase_x, phase_y = (
            2.0 * np.pi * self.num_waves * values / length
            for values, length in zip((x, y), tile.size, strict=True)
        )
        return 0.5 * between(self.amplitude_range, difficulty) * (np.cos(phase_y) + np.sin(phase_x))


@dataclass(kw_only=True)
class HfDiscreteObstaclesTerrainCfg(HfTerrainCfg):
    """Rectangular blocks and pits in random places around a platform."""

    obstacle_height_mode: Literal["choice", "fixed"] = "choice"
    """``choice``: up or down, by the whole or half the height. ``fixed``: up by the whole."""
    obstacle_width_range: Range
    """Minimum and maximum side of an obstacle, in m, whatever the difficulty."""
    obstacle_height_range: Range
    """Height of an obstacle, in m."""
    num_obstacles: int
    """Obstacles per tile; they may overlap."""
    platform_width: float = 1.0
    """Width of the platform, in m."""

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        low, high = self.obstacle_width_range
        self.require(
            0.0 < low <= high < min(tile.size),
            f"obstacle_width_range is {list(self.obstacle_width_range)}",
            f"Give [minimum, maximum] below the tile's {min(tile.size)} m.",
        )
        height = between(self.obstacle_height_range, difficulty)
        factors = [1.0] if self.obstacle_height_mode == "fixed" else [-1.0, -0.5, 0.5, 1.0]
        x, y = tile.coordinates()
        heights = np.zeros(tile.shape)
        for _ in range(self.num_obstacles):
            side = rng.uniform(low, high, 2)
            x0, y0 = rng.uniform(0.0, np.array(tile.size) - side)
            inside = (x >= x0) & (x <= x0 + side[0]) & (y >= y0) & (y <= y0 + side[1])
            heights[inside] = height * rng.choice(factors)
        heights[tile.centre_distance() <= 0.5 * self.platform_width + 1e-6] = 0.0
        return heights


@dataclass(kw_only=True)
class HfSteppingStonesTerrainCfg(HfTerrainCfg):
    """Stones with gaps between them; harder tiles have smaller stones and wider gaps."""

    stone_height_max: float
    """Stones are up to this much higher or lower than the ground, in m."""
    stone_width_range: Range
    """Width of the stones of the hardest and of the easiest tile, in m."""
    stone_distance_range: Range
    """Width of the gaps of the easiest and of the hardest tile, in m."""
    holes_depth: float = -10.0
    """Height of the bottom of the gaps, in m."""
    platform_width: float = 1.0
    """Width of the platform, in m."""

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        width = between(self.stone_width_range, 1.0 - difficulty)
        pitch = width + between(self.stone_distance_range, difficulty)
        self.require(
            width > 0.0 and pitch < min(tile.size),
            f"stones of {width:.3g} m every {pitch:.3g} m do not fit into tiles of {tile.size[0]} "
            f"x {tile.size[1]} m",
            "Change stone_width_range or stone_distance_range.",
        )
        x, y = tile.coordinates()
        heights = np.full(tile.shape, self.holes_depth)
        for y0 in np.arange(0.0, tile.size[1], pitch):
            for x0 in np.arange(-rng.uniform(0.0, pitch), tile.size[0], pitch):
                inside = (x >= x0) & (x <= x0 + width) & (y >= y0) & (y <= y0 + width)
                heights[inside] = rng.uniform(-self.stone_height_max, self.stone_height_max)
        heights[tile.centre_distance() <= 0.5 * self.platform_width + 1e-6] = 0.0
        return heights
