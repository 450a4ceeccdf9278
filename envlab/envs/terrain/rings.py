"""Square rings around a platform: rails, pits, boxes, gaps, and stairs, some of them in the air.

Isaac Lab 2.3's kinds (``Mesh...``) and mjlab 1.6's (``Box...``), with their names and numbers.
Rails and what has air below it are boxes with upright walls; the rest is heights, with ramps one
cell wide as walls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from envlab.config import NonNegativeFloat, PositiveFloat, PositiveInt
from envlab.config import Range as Bounds
from envlab.envs.terrain.sub_terrains import SubTerrainCfg
from envlab.envs.terrain.tile import Box, Tile, between, whole

Lengths = Annotated[tuple[float, float], Bounds(at_least=0, below=math.inf)]
"""The length of the easiest and of the hardest tile, in m, unless a field says otherwise."""
_SECOND = 0.6
"""Where the outer of two rings begins, of the way from the platform to the tile's edge."""


@dataclass(kw_only=True)
class PlatformTerrainCfg(SubTerrainCfg):
    """Base of the kinds with a square platform in the centre."""

    platform_width: PositiveFloat = 1.0
    """Width of the platform, in m."""

    def second(self, tile: Tile) -> tuple[float, float]:
        """Return the lengths along x and y of what the outer of two rings surrounds, in m."""
        width = self.platform_width
        x, y = (width + (length - width) * _SECOND for length in tile.size)
        return x, y

    def require_room(self, tile: Tile, width: float, what: str, mend: str) -> None:
        """Refuse what is wider than the space inside the outermost cells of the tile.

        Raises:
            ConfigurationError: If ``width``, in m, is too much.
        """
        room = min(tile.size) - 2.0 * tile.horizontal_scale
        self.require(
            width <= room + 1e-6,
            f"{what} need {width:.3g} m, but tiles of {tile.size[0]} x {tile.size[1]} m have "
            f"{room:.3g} m inside their outermost cells",
            mend,
        )


@dataclass(kw_only=True)
class MeshRailsTerrainCfg(PlatformTerrainCfg):
    """Two square rails of boxes, around the platform and halfway to the edge of the tile."""

    rail_thickness_range: Lengths
    """Widths of the inner and of the outer rail, in m, whatever the difficulty."""
    rail_height_range: Lengths
    """Height of the rails, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        inner, outer = self.rail_thickness_range
        start = min(self.second(tile))
        what = f"rails of {inner} and {outer} m around a platform of {self.platform_width} m"
        mend = "Make the rails or platform_width smaller."
        self.require_room(tile, start + 2.0 * outer, what, mend)
        self.require(self.platform_width + 2.0 * inner <= start, f"{what} overlap", mend)
        return np.zeros(tile.shape), 0.0

    def boxes(self, tile: Tile, difficulty: float) -> list[Box]:
        height = between(self.rail_height_range, difficulty)
        inner, outer = self.rail_thickness_range
        around = (self.platform_width, self.platform_width)
        return [
            *tile.ring(around, inner, 0.0, height),
            *tile.ring(self.second(tile), outer, 0.0, height),
        ]


@dataclass(kw_only=True)
class MeshPitTerrainCfg(PlatformTerrainCfg):
    """A pit with the platform as its bottom."""

    pit_depth_range: Lengths
    """Depth of the pit, or of each of its two steps, in m."""
    double_pit: bool = False
    """Whether two steps lead down."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        return self.stack(tile, -between(self.pit_depth_range, difficulty), self.double_pit)

    def stack(self, tile: Tile, step: float, is_double: bool) -> tuple[np.ndarray, float]:
        """Return the heights of one or two steps to the platform, and its height, in m."""
        width = self.platform_width
        self.require_room(tile, width, f"platforms of {width} m", "Make platform_width smaller.")
        heights = np.where(tile.inside(width, width), step, 0.0)
        if is_double:
            heights += np.where(tile.inside(*self.second(tile)), step, 0.0)
        return tile.flat_edged(heights), step * (1 + is_double)


@dataclass(kw_only=True)
class MeshBoxTerrainCfg(PlatformTerrainCfg):
    """A box with the platform as its top."""

    box_height_range: Lengths
    """Height of the box, or of each of two, in m."""
    double_box: bool = False
    """Whether the box stands on a wider one."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        depths = (self.box_height_range[0], self.box_height_range[1])
        pit = MeshPitTerrainCfg(platform_width=self.platform_width, pit_depth_range=depths)
        return pit.stack(tile, between(depths, difficulty), self.double_box)


@dataclass(kw_only=True)
class MeshGapTerrainCfg(PlatformTerrainCfg):
    """A gap around the platform."""

    gap_width_range: Lengths
    """Width of the gap at the top, in m. Its walls are ramps inside it; at least one line of
    vertices has its depth."""
    gap_depth: PositiveFloat = 1.0
    """Depth of the gap, in m. Isaac Lab's has no bottom."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        width = between(self.gap_width_range, difficulty)
        self.require_room(
            tile,
            self.platform_width + 2.0 * width,
            f"a platform of {self.platform_width} m and gaps of {width:.3g} m",
            "Make platform_width or gap_width_range smaller.",
        )
        start = 0.5 * self.platform_width
        is_deep = _between_walls(tile.centre_distance(), start, start + width)
        return tile.flat_edged(np.where(is_deep, -self.gap_depth, 0.0)), 0.0


def _between_walls(distance: np.ndarray, start: float, end: float) -> np.ndarray:
    """Return which distances are between two walls, or nearest to their middle if none are."""
    is_deep: np.ndarray = (distance > start + 1e-6) & (distance < end - 1e-6)
    if end > start and not is_deep.any():
        off = np.abs(distance - 0.5 * (start + end))
        is_deep = off <= off.min() + 1e-6
    return is_deep


@dataclass(kw_only=True)
class MeshFloatingRingTerrainCfg(PlatformTerrainCfg):
    """A square ring of boxes that floats around the platform; low ones are harder."""

    ring_width_range: Lengths
    """Width of the ring, in m."""
    ring_height_range: Lengths
    """Height of its lower side of the hardest and of the easiest tile, in m."""
    ring_thickness: PositiveFloat
    """Distance from its lower to its upper side, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        width = between(self.ring_width_range, difficulty)
        self.require_room(
            tile,
            self.platform_width + 2.0 * width,
            f"a platform of {self.platform_width} m and a ring of {width:.3g} m",
            "Make platform_width or ring_width_range smaller.",
        )
        return np.zeros(tile.shape), 0.0

    def boxes(self, tile: Tile, difficulty: float) -> list[Box]:
        height = between(self.ring_height_range, 1.0 - difficulty)
        width = between(self.ring_width_range, difficulty)
        around = (self.platform_width, self.platform_width)
        return tile.ring(around, width, height, height + self.ring_thickness)


@dataclass(kw_only=True)
class BoxNestedRingsTerrainCfg(PlatformTerrainCfg):
    """Rings of one height with gaps between them; harder tiles have narrow rings and wide gaps."""

    num_rings: PositiveInt = 5
    """Rings at most, from the border inwards; what is inside of them is the platform."""
    ring_width_range: Lengths = (0.3, 0.6)
    """Width of the rings of the hardest and of the easiest tile, in m."""
    gap_range: Lengths = (0.0, 0.2)
    """Width of the gaps, in m."""
    height_range: Lengths = (0.1, 0.4)
    """The height of all rings is the mean of these, in m."""
    border_width: NonNegativeFloat = 0.25
    """Width of the border, which is as high as the rings, in m."""
    floor_depth: NonNegativeFloat = 2.0
    """Depth of the gaps below the ground, in m."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        self.require_room(
            tile,
            self.platform_width + 2.0 * self.border_width,
            f"a platform of {self.platform_width} m and borders of {self.border_width} m",
            "Make platform_width or border_width smaller.",
        )
        width = between(self.ring_width_range, 1.0 - difficulty)
        gap = between(self.gap_range, difficulty)
        height = 0.5 * sum(self.height_range)
        distance = tile.edge_distance()
        heights = np.full(tile.shape, height)
        start = self.border_width
        for _ in range(self.num_rings):
            if min(tile.size) - 2.0 * start <= self.platform_width:
                break
            # The last ring's gap belongs to the platform.
            if min(tile.size) - 2.0 * (start + width + gap) > self.platform_width:
                heights[
                    _between_walls(distance, start + width, start + width + gap)
                ] = -self.floor_depth
            start += width + gap
        return tile.flat_edged(heights), height


@dataclass(kw_only=True)
class BoxStairsTerrainCfg(PlatformTerrainCfg):
    """Base of mjlab's stairs from all four sides."""

    border_width: NonNegativeFloat = 0.25
    """Width of the flat ground around the stairs, in m."""

    def num_steps(self, tile: Tile, step_width: float) -> int:
        """Return how many steps lead to the platform, which gets the rest of the tile."""
        self.require(
            step_width > 0.0,
            f"a step has a width of {step_width} m",
            "Give it more than 0.",
        )
        self.require_room(
            tile,
            self.platform_width + 2.0 * self.border_width,
            f"a platform of {self.platform_width} m and borders of {self.border_width} m",
            "Make platform_width or border_width smaller.",
        )
        room = min(tile.size) - 2.0 * self.border_width - self.platform_width
        return whole(room, 2.0 * step_width)


@dataclass(kw_only=True)
class BoxRandomStairsTerrainCfg(BoxStairsTerrainCfg):
    """Stairs up to the platform whose steps differ in height."""

    step_width: PositiveFloat = 0.8
    """Depth of a step, in m."""
    step_height_range: Lengths = (0.1, 0.3)
    """Minimum and maximum height of a step of the hardest tile, in m; the easiest has half."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        num_steps = self.num_steps(tile, self.step_width)
        steps = rng.uniform(*self.step_height_range, num_steps) * (0.5 + 0.5 * difficulty)
        levels = np.concatenate(([0.0], np.cumsum(steps)))
        inwards = (tile.edge_distance() - self.border_width) / self.step_width
        reached = np.clip(np.floor(inwards + 1e-6).astype(int) + 1, 0, num_steps)
        return tile.flat_edged(levels[reached]), float(levels[-1])


@dataclass(kw_only=True)
class BoxOpenStairsTerrainCfg(BoxStairsTerrainCfg):
    """Stairs of thin boxes with nothing between them, up to the platform or down to it."""

    step_height_range: Lengths = (0.1, 0.2)
    """Height of a step, in m."""
    step_width_range: Lengths = (0.4, 0.8)
    """Depth of a step of the hardest and of the easiest tile, in m."""
    step_thickness: PositiveFloat = 0.05
    """Thickness of a step, in m."""
    inverted: bool = True
    """Whether the stairs lead down, into a hollow as deep as the platform's lower side."""

    def build(
        self, tile: Tile, difficulty: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        top = self._steps(tile, difficulty)[-1]
        is_inner = tile.edge_distance() > self.border_width - 1e-6
        floor = top - self.step_thickness if self.inverted else 0.0
        return tile.flat_edged(np.where(is_inner, floor, 0.0)), top

    def boxes(self, tile: Tile, difficulty: float) -> list[Box]:
        width = between(self.step_width_range, 1.0 - difficulty)
        *steps, top = self._steps(tile, difficulty)
        boxes = []
        inner = [length - 2.0 * self.border_width for length in tile.size]
        for step in steps:
            inner = [length - 2.0 * width for length in inner]
            boxes += tile.ring((inner[0], inner[1]), width, step - self.step_thickness, step)
        low, high = (
            [0.5 * (size + sign * length) for size, length in zip(tile.size, inner, strict=True)]
            for sign in (-1.0, 1.0)
        )
        bottom = top - self.step_thickness
        return [*boxes, Box((low[0], low[1], bottom), (high[0], high[1], top))]

    def _steps(self, tile: Tile, difficulty: float) -> list[float]:
        """Return the heights of the upper sides of the steps and of the platform, in m."""
        height = between(self.step_height_range, difficulty)
        num_steps = self.num_steps(tile, between(self.step_width_range, 1.0 - difficulty))
        first, sign = (0.0, -1.0) if self.inverted else (height, 1.0)
        return [first + sign * height * step for step in range(num_steps + 1)]
