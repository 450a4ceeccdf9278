"""Noise, and blocks, stones, beams and bars around a platform.

Isaac Lab 2.3's and mjlab 1.6's kinds, with their names and numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from envlab.config import NonNegativeFloat, PositiveFloat, PositiveInt
from envlab.config import Range as Bounds
from envlab.envs.terrain.rings import Lengths, PlatformTerrainCfg
from envlab.envs.terrain.sub_terrains import (
    HfTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    MeshRandomGridTerrainCfg,
)
from envlab.envs.terrain.tile import Tile, between, whole

_TILTED_M = 0.2
"""Mean height of tilted blocks, and that of the platform and the border between them, in m."""


@dataclass(kw_only=True)
class BoxFlatTerrainCfg(MeshPlaneTerrainCfg):
    """Flat ground."""


@dataclass(kw_only=True)
class BoxPyramidStairsTerrainCfg(MeshPyramidStairsTerrainCfg):
    """Stairs up to a platform in the centre, from all four sides."""


@dataclass(kw_only=True)
class BoxInvertedPyramidStairsTerrainCfg(MeshInvertedPyramidStairsTerrainCfg):
    """Stairs down to a platform in the centre."""


@dataclass(kw_only=True)
class BoxRandomGridTerrainCfg(MeshRandomGridTerrainCfg):
    """Square blocks of random heights around a platform, inside a border."""

    border_width: NonNegativeFloat = 0.25
    """Minimum width of the flat ground around the blocks, in m; the rest of the tile is added."""

    @property
    def least_border(self) -> float:
        return self.border_width


@dataclass(kw_only=True)
class HfPerlinNoiseTerrainCfg(HfTerrainCfg):
    """Perlin's noise: smooth hills of several sizes, from 0 to their full height."""

    height_range: Lengths
    """Height of the highest point above the lowest, in m."""
    octaves: PositiveInt = 4
    """Noises of different sizes that are added."""
    persistence: PositiveFloat = 0.5
    """Height of each noise relative to that of the one before."""
    lacunarity: PositiveFloat = 2.0
    """How many times finer each noise is than the one before."""
    scale: PositiveFloat = 10.0
    """The coarsest noise has half as many cells along each side: mjlab's with its default
    ``resolution`` and ``horizontal_scale``."""

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        total = np.zeros(tile.shape)
        for octave in range(self.octaves):
            cells = 0.5 * self.scale * self.lacunarity**octave
            total += self.persistence**octave * _gradient_noise(tile, cells, rng)
        total -= total.min()
        return total * (between(self.height_range, difficulty) / max(float(total.max()), 1e-9))


def _gradient_noise(tile: Tile, cells: float, rng: np.random.Generator) -> np.ndarray:
    """Return noise of a random slope at each corner of so many cells a side, ``tile.shape``."""
    angles = rng.uniform(0.0, 2.0 * np.pi, (math.ceil(cells) + 2,) * 2)
    x, y = (
        values / length * cells
        for values, length in zip(tile.coordinates(), tile.size, strict=True)
    )
    first_x, first_y = np.floor(x).astype(int), np.floor(y).astype(int)
    u, v = x - first_x, y - first_y

    def slope(right: int, up: int) -> np.ndarray:
        angle = angles[first_x + right, first_y + up]
        height: np.ndarray = np.cos(angle) * (u - right) + np.sin(angle) * (v - up)
        return height

    # Perlin's weights: their first and second derivatives are 0 at both ends.
    right, up = (w**3 * (w * (6.0 * w - 15.0) + 10.0) for w in (u, v))
    lower = slope(0, 0) * (1.0 - right) + slope(1, 0) * right
    upper = slope(0, 1) * (1.0 - right) + slope(1, 1) * right
    noise: np.ndarray = lower * (1.0 - up) + upper * up
    return noise


@dataclass(kw_only=True)
class HfPyramidStairsTerrainCfg(HfTerrainCfg):
    """Stairs up to a platform in the centre; the first is a step's depth inside the border."""

    step_height_range: Lengths
    """Height of a step, in m."""
    step_width: PositiveFloat
    """Depth of a step, in m."""
    platform_width: PositiveFloat = 1.0
    """Maximum width of the platform, in m; it may be up to two steps narrower."""

    sign: ClassVar[float] = 1.0

    def heights(self, tile: Tile, difficulty: float, rng: np.random.Generator) -> np.ndarray:
        room = min(tile.size) - self.platform_width
        num_steps = math.ceil(max(room, 0.0) / (2.0 * self.step_width) - 1e-9)
        self.require(
            2.0 * num_steps * self.step_width <= min(tile.size),
            f"{num_steps} steps of {self.step_width} m on each side do not fit into "
            f"{min(tile.size):.3g} m",
            "Make step_width smaller or platform_width larger.",
        )
        inwards = np.floor(tile.edge_distance() / self.step_width + 1e-6)
        step = self.sign * between(self.step_height_range, difficulty)
        heights: np.ndarray = np.clip(inwards, 0, num_steps) * step
        return heights


@dataclass(kw_only=True)
class HfInvertedPyramidStairsTerrainCfg(HfPyramidStairsTerrainCfg):
    """Stairs down to a platform in the centre."""

    sign: ClassVar[float] = -1.0


@dataclass(kw_only=True)
class _BorderedTerrainCfg(PlatformTerrainCfg):
    """A kind with a border around its obstacles."""

    border_width: NonNegativeFloat = 0.25
    """Width of the border, in m."""

    def check_room(self, tile: Tile) -> None:
        """Refuse a platform and borders that are wider than the tile."""
        self.require_room(
            tile,
            self.platform_width + 2.0 * self.border_width,
            f"a platform of {self.platform_width} m and borders of {self.border_width} m",
            "Make platform_width or border_width smaller.",
        )

    def solid(self, tile: Tile, centre: float | None = None) -> np.ndarray:
        """Return which vertices are of the border or of the platform, bool ``tile.shape``."""
        width = self.platform_width if centre is None else centre
        is_border: np.ndarray = tile.edge_distance() <= self.border_width + 1e-6
        return is_border | tile.inside(width, width)


@dataclass(kw_only=True)
class BoxRandomSpreadTerrainCfg(_BorderedTerrainCfg):
    """Blocks of random sizes, in random places and directions; harder tiles have more, higher."""

    num_boxes: PositiveInt = 60
    """Blocks of the hardest tile; the easiest has half. Those over the platform are omitted."""
    box_width_range: Lengths = (0.3, 1.0)
    """Minimum and maximum width of a block, in m."""
    box_length_range: Lengths = (0.3, 1.0)
    """Minimum and maximum length of a block, in m."""
    box_height_range: Lengths = (0.05, 1.0)
    """Minimum and maximum height of a block of the hardest tile, in m; the easiest has a fifth."""
    box_yaw_range: tuple[float, float] = (0.0, 360.0)
    """Minimum and maximum turn of a block about the vertical, in degrees."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.check_room(tile)
        longest = max(self.box_width_range[1], self.box_length_range[1])
        self.require_room(
            tile,
            longest + 2.0 * self.border_width,
            f"blocks of {longest} m and borders of {self.border_width} m",
            "Make box_width_range, box_length_range or border_width smaller.",
        )
        x, y = tile.coordinates()
        middle = 0.5 * np.array(tile.size)
        heights = np.zeros(tile.shape)
        for _ in range(int(self.num_boxes * (0.5 + 0.5 * difficulty))):
            size = np.array(
                [rng.uniform(*self.box_width_range), rng.uniform(*self.box_length_range)]
            )
            height = rng.uniform(*self.box_height_range) * (0.2 + 0.8 * difficulty)
            margin = self.border_width + 0.5 * size
            centre = rng.uniform(margin, np.array(tile.size) - margin)
            yaw = math.radians(rng.uniform(*self.box_yaw_range))
            if (np.abs(centre - middle) <= 0.5 * (self.platform_width + size)).all():
                continue
            along = (x - centre[0]) * math.cos(yaw) + (y - centre[1]) * math.sin(yaw)
            across = (y - centre[1]) * math.cos(yaw) - (x - centre[0]) * math.sin(yaw)
            half = 0.5 * size + 1e-6
            inside = (np.abs(along) <= half[0]) & (np.abs(across) <= half[1])
            np.maximum(heights, np.where(inside, height, 0.0), out=heights)
        heights[tile.inside(self.platform_width, self.platform_width)] = 0.0  # of turned corners
        return tile.flat_edged(heights), 0.0


@dataclass(kw_only=True)
class BoxSteppingStonesTerrainCfg(_BorderedTerrainCfg):
    """Stones in the places of a grid, over a deep floor; harder tiles have smaller, uneven ones."""

    stone_size_range: Lengths = (0.4, 0.8)
    """Width of the stones of the hardest and of the easiest tile, in m."""
    stone_distance_range: Lengths = (0.2, 0.5)
    """The first is the minimum distance of the easiest tile's stones, in m, from which their number
    follows; the second has no effect, in mjlab neither."""
    stone_height: float = 0.2
    """Mean height of the stones, and that of the platform and the border, in m."""
    stone_height_variation: NonNegativeFloat = 0.1
    """Stones of the hardest tile are up to this much higher or lower, in m."""
    stone_size_variation: NonNegativeFloat = 0.1
    """Stones of the hardest tile are up to this much wider or narrower, in m."""
    displacement_range: NonNegativeFloat = 0.1
    """Stones of the hardest tile are up to this far from their places along x and y, in m."""
    floor_depth: PositiveFloat = 2.0
    """Depth of the floor below the ground, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.check_room(tile)
        size = between(self.stone_size_range, 1.0 - difficulty)
        pitch = self.stone_size_range[1] + self.stone_distance_range[0]
        self.require(
            size > 0.0 and pitch > 0.0,
            f"stones are {size:.3g} m wide, every {pitch:.3g} m",
            "Give stone_size_range and stone_distance_range more than 0.",
        )
        x, y = tile.coordinates()
        heights = np.full(tile.shape, -self.floor_depth)
        places = []
        for length in tile.size:
            inner = length - 2.0 * self.border_width
            places.append(
                self.border_width + np.linspace(0.0, inner, max(2, whole(inner, pitch) + 1))
            )
        for place in np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(-1, 2):
            centre = place + difficulty * self.displacement_range * rng.uniform(-1.0, 1.0, 2)
            half = 1e-6 + 0.5 * (
                size + difficulty * self.stone_size_variation * rng.uniform(-1.0, 1.0, 2)
            )
            rise = difficulty * self.stone_height_variation * rng.uniform(-1.0, 1.0)
            is_near = (np.abs(x - centre[0]) <= half[0]) & (np.abs(y - centre[1]) <= half[1])
            heights[is_near] = self.stone_height + rise
        heights[self.solid(tile)] = self.stone_height
        return tile.flat_edged(heights), self.stone_height


@dataclass(kw_only=True)
class BoxNarrowBeamsTerrainCfg(_BorderedTerrainCfg):
    """Beams from the platform to the border over a deep floor; harder tiles have narrow ones."""

    num_beams: Annotated[int, Bounds(at_least=2)] = 16
    """Beams, spread evenly over all directions."""
    beam_width_range: Lengths = (0.2, 0.4)
    """Width of the beams of the hardest and of the easiest tile, in m."""
    beam_height: float = 0.2
    """Height of the beams, the platform and the border, in m."""
    floor_depth: PositiveFloat = 2.0
    """Depth of the floor below the ground, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.check_room(tile)
        width = between(self.beam_width_range, 1.0 - difficulty)
        # So that the platform's corners do not reach into the gaps between beams.
        widest = width / (math.sqrt(2.0) * math.sin(math.pi / self.num_beams))
        angles = 2.0 * np.pi * np.arange(self.num_beams) / self.num_beams
        is_solid = self.solid(tile, min(self.platform_width, widest)) | _beams(tile, angles, width)
        heights = np.where(is_solid, self.beam_height, -self.floor_depth)
        return tile.flat_edged(heights), self.beam_height


def _beams(tile: Tile, angles: np.ndarray, width: float) -> np.ndarray:
    """Return the vertices of beams from the centre in directions in rad, bool ``tile.shape``.

    Beams narrower than a cell's diagonal are as wide as that, so that none has a hole.
    """
    x, y = tile.coordinates()
    x, y = x - 0.5 * tile.size[0], y - 0.5 * tile.size[1]
    half = 0.5 * max(width, math.sqrt(2.0) * tile.horizontal_scale) + 1e-6
    is_beam = np.zeros(tile.shape, dtype=bool)
    for angle in angles:
        cos, sin = math.cos(angle), math.sin(angle)
        is_beam |= (np.abs(y * cos - x * sin) <= half) & (x * cos + y * sin >= -1e-6)
    return is_beam


@dataclass(kw_only=True)
class MeshStarTerrainCfg(PlatformTerrainCfg):
    """Bars that cross in a round platform, over a floor; harder tiles have narrow, high ones."""

    num_bars: Annotated[int, Bounds(at_least=2)]
    """Bars, each from one side of the tile to the other."""
    bar_width_range: Lengths
    """Width of the bars of the hardest and of the easiest tile, in m."""
    bar_height_range: Lengths
    """Height of the bars above the floor, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        width = between(self.bar_width_range, 1.0 - difficulty)
        self.require_room(
            tile,
            self.platform_width + 2.0 * width,
            f"a platform of {self.platform_width} m and bars of {width:.3g} m",
            "Make platform_width or bar_width_range smaller.",
        )
        x, y = tile.coordinates()
        radius = np.hypot(x - 0.5 * tile.size[0], y - 0.5 * tile.size[1])
        angles = np.pi * np.arange(2 * self.num_bars) / self.num_bars
        is_solid = (radius <= 0.5 * self.platform_width + 1e-6) | _beams(tile, angles, width)
        is_solid |= tile.edge_distance() <= width + 1e-6  # a frame around them
        floor = -between(self.bar_height_range, difficulty)
        return tile.flat_edged(np.where(is_solid, 0.0, floor)), 0.0


@dataclass(kw_only=True)
class BoxTiltedGridTerrainCfg(_BorderedTerrainCfg):
    """Square blocks whose tops are tilted, around a platform; harder tiles have steeper ones."""

    grid_width: PositiveFloat = 1.0
    """Width of a block, in m. Its sides are moved to the nearest vertices."""
    tilt_range_deg: Annotated[float, Bounds(at_least=0, below=90)] = 15.0
    """Blocks of the hardest tile are tilted up to this much along x and y, in degrees."""
    height_range: NonNegativeFloat = 0.1
    """Blocks of the hardest tile are up to half this much higher or lower, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.check_room(tile)
        numbers = [whole(length - 2.0 * self.border_width, self.grid_width) for length in tile.size]
        self.require(
            min(numbers) > 0,
            f"blocks of {self.grid_width} m do not fit into tiles of {tile.size[0]} x "
            f"{tile.size[1]} m with borders of {self.border_width} m",
            "Make grid_width or border_width smaller.",
        )
        # mjlab also multiplies by the angle in rad.
        tilts = rng.uniform(-1.0, 1.0, (2, *numbers)) * math.radians(self.tilt_range_deg)
        rises = 0.5 * self.height_range * rng.uniform(-1.0, 1.0, numbers)
        places = [
            (values - 0.5 * (length - number * self.grid_width)) / self.grid_width + 1e-6
            for values, length, number in zip(tile.coordinates(), tile.size, numbers, strict=True)
        ]
        blocks = [np.floor(place).astype(int) for place in places]
        is_block = np.ones(tile.shape, dtype=bool)
        for block, number in zip(blocks, numbers, strict=True):
            is_block &= (block >= 0) & (block < number)
        x, y = (
            np.clip(block, 0, number - 1) for block, number in zip(blocks, numbers, strict=True)
        )
        off_x, off_y = (
            (place - block - 0.5) * self.grid_width
            for place, block in zip(places, blocks, strict=True)
        )
        tops = _TILTED_M + difficulty * (
            rises[x, y] + tilts[0][x, y] * off_x + tilts[1][x, y] * off_y
        )
        is_platform = tile.inside(self.platform_width, self.platform_width)
        return tile.flat_edged(np.where(is_block & ~is_platform, tops, _TILTED_M)), _TILTED_M
