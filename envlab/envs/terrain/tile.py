"""A tile of generated ground: the grid that sub-terrains fill, and their common functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from envlab.errors import ConfigurationError


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
        """Return the greatest height within 1 m of the centre along x and y, in m."""
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
