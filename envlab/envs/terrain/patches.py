"""Flat patches of a tile: places where robots may start, found when the ground is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from envlab.config import NonNegativeFloat, PositiveInt
from envlab.config import Range as Bounds
from envlab.envs.terrain.tile import Tile
from envlab.errors import ConfigurationError

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
