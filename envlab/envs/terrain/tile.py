"""A tile of generated ground: the grid that sub-terrains fill, their functions, and flat patches.

Patches are places where robots may start, found when the ground is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from envlab.config import NonNegativeFloat, PositiveInt
from envlab.config import Range as Bounds
from envlab.errors import ConfigurationError


@dataclass(frozen=True)
class Box:
    """A box on or above the ground: what heights cannot express, or only with ramps as walls."""

    low: tuple[float, float, float]
    """Its corner with the smallest coordinates, in m."""
    high: tuple[float, float, float]
    """The opposite corner, in m."""

    @property
    def centre(self) -> np.ndarray:
        """Its middle, in m."""
        return 0.5 * (np.array(self.low) + self.high)

    @property
    def half(self) -> np.ndarray:
        """Half its lengths, in m."""
        return 0.5 * (np.array(self.high) - self.low)

    def moved(self, offset: np.ndarray) -> Box:
        """Return the box elsewhere, by an offset in m, ``(3,)``."""
        low, high = (
            [float(value) for value in corner + offset] for corner in (self.low, self.high)
        )
        return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))


@dataclass(frozen=True)
class Tile:
    """The vertices of one square of ground, edges included; local coordinates start at a corner."""

    size: tuple[float, float]
    """Lengths along x and y, in m."""
    horizontal_scale: float
    """Distance of two vertices, in m."""
    vertical_scale: float
    """Smallest step of heights that are made of noise or slopes, in m."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vertices along x and y."""
        return cells(self.size[0], self) + 1, cells(self.size[1], self) + 1

    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of the vertices in m, ``(num_x, 1)`` and ``(1, num_y)``."""
        num_x, num_y = self.shape
        x, y = np.arange(num_x) * self.horizontal_scale, np.arange(num_y) * self.horizontal_scale
        return x[:, None], y[None, :]

    def edge_distance(self) -> np.ndarray:
        """Return each vertex's distance from the nearest edge of the tile, in m, ``shape``."""
        x, y = self.coordinates()
        return np.minimum(np.minimum(x, self.size[0] - x), np.minimum(y, self.size[1] - y))

    def centre_distance(self) -> np.ndarray:
        """Return the larger of each vertex's distances from the centre along x and y, in m."""
        x, y = self.coordinates()
        return np.maximum(np.abs(x - 0.5 * self.size[0]), np.abs(y - 0.5 * self.size[1]))

    def inside(self, length_x: float, length_y: float) -> np.ndarray:
        """Return which vertices are in a centred rectangle or on its edges, bool ``shape``."""
        x, y = self.coordinates()
        in_x = np.abs(x - 0.5 * self.size[0]) <= 0.5 * length_x + 1e-6
        inside: np.ndarray = in_x & (np.abs(y - 0.5 * self.size[1]) <= 0.5 * length_y + 1e-6)
        return inside

    def ring(
        self, lengths: tuple[float, float], width: float, low: float, high: float
    ) -> list[Box]:
        """Return four boxes around a centred rectangle, none of whose space is in two of them.

        Args:
            lengths: Lengths of the rectangle along x and y, in m.
            width: Width of the ring, in m.
            low: Height of its bottom, in m.
            high: Height of its top, in m.
        """
        (x0, x1), (y0, y1) = (
            (0.5 * (size - length), 0.5 * (size + length))
            for size, length in zip(self.size, lengths, strict=True)
        )
        return [
            Box((x0 - width, y0 - width, low), (x1 + width, y0, high)),
            Box((x0 - width, y1, low), (x1 + width, y1 + width, high)),
            Box((x0 - width, y0, low), (x0, y1, high)),
            Box((x1, y0, low), (x1 + width, y1, high)),
        ]

    def covered(self, heights: np.ndarray, boxes: Sequence[Box]) -> np.ndarray:
        """Return the heights of the ground or the boxes over it, whichever are higher.

        A box reaches to the vertices nearest to its sides, so that even a thin box covers some.
        """
        covered = heights.copy()
        for box in boxes:
            first, last = (
                [round(value / self.horizontal_scale) for value in corner[:2]]
                for corner in (box.low, box.high)
            )
            part = covered[first[0] : last[0] + 1, first[1] : last[1] + 1]
            np.maximum(part, box.high[2], out=part)
        return covered

    def rounded(self, heights: np.ndarray) -> np.ndarray:
        """Return heights in m as whole numbers of ``vertical_scale``."""
        return np.rint(heights / self.vertical_scale) * self.vertical_scale

    def without_border(self, border: int) -> Tile:
        """Return the tile that remains without ``border`` cells on each side."""
        x, y = (length - 2 * border * self.horizontal_scale for length in self.size)
        return Tile((x, y), self.horizontal_scale, self.vertical_scale)

    def flat_edged(self, heights: np.ndarray) -> np.ndarray:
        """Return ``heights`` with zeros on the edges, so that neighbouring tiles meet."""
        return np.pad(heights[1:-1, 1:-1], 1)

    def top_of_centre(self, heights: np.ndarray) -> float:
        """Return the maximum height within 1 m of the centre along x and y, in m."""
        return float(heights[self.centre_distance() <= 1.0 + 1e-9].max())


def between(bounds: tuple[float, float], difficulty: float) -> float:
    """Return the value at ``difficulty``, 0 to 1, of the way from the first bound to the second."""
    return bounds[0] + difficulty * (bounds[1] - bounds[0])


def cells(length: float, tile: Tile) -> int:
    """Return the number of cells in a length.

    Raises:
        ConfigurationError: If it is not a whole number.
    """
    number = length / tile.horizontal_scale
    is_finite = math.isfinite(number)
    if not is_finite or abs(number - round(number)) > 1e-6 or round(number) < 1:
        raise ConfigurationError(
            f"The terrain generator has tiles of {tile.size[0]} x {tile.size[1]} m and a "
            f"horizontal_scale of {tile.horizontal_scale} m, but a tile must be a whole number of "
            "cells. Change size or horizontal_scale."
        )
    return round(number)


def whole(length: float, width: float) -> int:
    """Return how many times ``width`` fits into ``length``, whatever the rounding."""
    return math.floor(length / width + 1e-9)


ANY = (-1e6, 1e6)
"""Bounds of a coordinate that excludes nothing."""


@dataclass(kw_only=True)
class FlatPatchSamplingCfg:
    """How many flat patches to find on each tile of a kind, and which are flat."""

    __removable__: ClassVar[bool] = True

    num_patches: PositiveInt = 10
    """Patches of each tile; some are equal if fewer are flat."""
    patch_radius: Annotated[float | list[float], Bounds(above=0, below=math.inf)] = 0.5
    """Radius of a patch, in m; of several, the largest."""
    max_height_diff: NonNegativeFloat = 0.05
    """Largest difference of two heights of a patch, in m."""
    x_range: tuple[float, float] = ANY
    """Minimum and maximum x of a patch's centre, from the middle of the tile, in m."""
    y_range: tuple[float, float] = ANY
    """The same along y."""
    z_range: tuple[float, float] = ANY
    """Minimum and maximum height of a patch above the ground in the tile's middle, in m."""

    def check_values(self, path: str) -> None:
        """Refuse no radius, and ranges that end before they begin.

        Raises:
            ConfigurationError: With the value.
        """
        if not np.size(self.patch_radius):
            raise ConfigurationError(f"{path}.patch_radius is [], but must be at least one radius.")
        for name in ("x_range", "y_range", "z_range"):
            low, high = getattr(self, name)
            if not low <= high:
                raise ConfigurationError(
                    f"{path}.{name} is [{low}, {high}], but must be [minimum, maximum]. Swap them."
                )


def find_patches(
    cfg: FlatPatchSamplingCfg, tile: Tile, heights: np.ndarray, top: float, rng: np.random.Generator
) -> np.ndarray:
    """Return flat patches in m from a corner of the tile, ``(num_patches, 3)``; none: ``(0, 3)``.

    Their centres are vertices. All cells that a patch touches are flat and of the tile.

    Args:
        cfg: What is flat.
        tile: The tile.
        heights: Its heights in m, ``tile.shape``.
        top: Height of the ground under a robot in the middle, in m.
        rng: The source of random draws.
    """
    radius = float(np.max(cfg.patch_radius)) / tile.horizontal_scale
    reach = math.ceil(radius - 1e-6)
    low = np.pad(heights, reach, constant_values=np.inf)
    high = np.pad(heights, reach, constant_values=-np.inf)
    least, most = np.full(tile.shape, np.inf), np.full(tile.shape, -np.inf)
    num_x, num_y = tile.shape
    for right in range(-reach, reach + 1):
        for up in range(-reach, reach + 1):
            # The nearest corner of the cells around this vertex.
            if math.hypot(max(abs(right) - 1, 0), max(abs(up) - 1, 0)) < radius - 1e-6:
                x, y = reach + right, reach + up
                np.minimum(least, low[x : x + num_x, y : y + num_y], out=least)
                np.maximum(most, high[x : x + num_x, y : y + num_y], out=most)
    place_x, place_y = tile.coordinates()
    is_flat = most - least <= cfg.max_height_diff + 1e-9
    is_flat &= tile.edge_distance() >= reach * tile.horizontal_scale - 1e-6
    for values, (start, end) in (
        (place_x - 0.5 * tile.size[0], cfg.x_range),
        (place_y - 0.5 * tile.size[1], cfg.y_range),
        (least - top, cfg.z_range),
        (most - top, cfg.z_range),
    ):
        is_flat &= (values >= start - 1e-9) & (values <= end + 1e-9)
    found = np.argwhere(is_flat)
    if len(found) == 0:
        return np.zeros((0, 3))
    chosen = rng.permutation(found)[np.arange(cfg.num_patches) % len(found)]
    places = chosen * tile.horizontal_scale
    return np.column_stack((places, heights[chosen[:, 0], chosen[:, 1]]))
