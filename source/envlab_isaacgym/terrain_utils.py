"""``isaacgym.terrain_utils``: heights of terrains, as whole multiples of a vertical scale.

Each function adds to, or carves from, a :class:`SubTerrain` and returns it. Draws are numpy's
global ones, so that a task's seed decides them.
"""

from __future__ import annotations

import numpy as np


class SubTerrain:
    """A rectangle of heights.

    Attributes:
        height_field_raw: Heights in multiples of ``vertical_scale``, int16 ``(width, length)``.
        vertical_scale: Unit of height, in m.
        horizontal_scale: Size of a cell, in m.
    """

    def __init__(
        self,
        terrain_name: str = "terrain",
        width: int = 256,
        length: int = 256,
        vertical_scale: float = 1.0,
        horizontal_scale: float = 1.0,
    ) -> None:
        self.terrain_name = terrain_name
        self.width, self.length = width, length
        self.vertical_scale, self.horizontal_scale = vertical_scale, horizontal_scale
        self.height_field_raw = np.zeros((width, length), dtype=np.int16)


def random_uniform_terrain(
    terrain: SubTerrain,
    min_height: float,
    max_height: float,
    step: float = 1,
    downsampled_scale: float | None = None,
) -> SubTerrain:
    """Add random heights in m, drawn on a coarser grid and interpolated."""
    coarse = downsampled_scale or terrain.horizontal_scale
    low, high, grain = (
        int(height / terrain.vertical_scale) for height in (min_height, max_height, step)
    )
    grain = max(1, grain)
    size = [
        max(2, int(cells * terrain.horizontal_scale / coarse))
        for cells in (terrain.width, terrain.length)
    ]
    drawn = np.random.choice(np.arange(low, high + grain, grain), size).astype(float)
    fine = _interpolated(_interpolated(drawn, terrain.width).T, terrain.length).T
    terrain.height_field_raw += np.rint(fine).astype(np.int16)
    return terrain


def _interpolated(rows: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` rows, spread evenly between the first and the last."""
    place = np.linspace(0, len(rows) - 1, count)
    below = np.minimum(place.astype(int), len(rows) - 2)
    share = (place - below)[:, None]
    return (1 - share) * rows[below] + share * rows[below + 1]


def sloped_terrain(terrain: SubTerrain, slope: float = 1) -> SubTerrain:
    """Add a slope along x."""
    rise = slope * terrain.horizontal_scale / terrain.vertical_scale
    heights = rise * np.arange(terrain.width)
    terrain.height_field_raw += heights[:, None].astype(np.int16)
    return terrain


def pyramid_sloped_terrain(
    terrain: SubTerrain, slope: float = 1, platform_size: float = 1.0
) -> SubTerrain:
    """Add a pyramid, cut off where its top becomes a platform of ``platform_size`` in m."""
    x, y = (
        1 - np.abs(np.arange(cells) - cells / 2) / (cells / 2)
        for cells in (terrain.width, terrain.length)
    )
    top = slope * terrain.horizontal_scale / terrain.vertical_scale * terrain.width / 2
    terrain.height_field_raw += (top * x[:, None] * y[None, :]).astype(np.int16)
    half = int(platform_size / terrain.horizontal_scale / 2)
    edge = int(terrain.height_field_raw[terrain.width // 2 - half, terrain.length // 2 - half])
    terrain.height_field_raw = np.clip(terrain.height_field_raw, min(edge, 0), max(edge, 0))
    return terrain


def discrete_obstacles_terrain(
    terrain: SubTerrain,
    max_height: float,
    min_size: float,
    max_size: float,
    num_rects: int,
    platform_size: float = 1.0,
) -> SubTerrain:
    """Put rectangles of random sizes and heights in m around a flat platform."""
    high = int(max_height / terrain.vertical_scale)
    sizes = [int(size / terrain.horizontal_scale) for size in (min_size, max_size)]
    for _ in range(num_rects):
        width, length = np.random.randint(sizes[0], sizes[1] + 1, 2)
        x = np.random.randint(0, max(1, terrain.width - width))
        y = np.random.randint(0, max(1, terrain.length - length))
        height = np.random.choice([-high, -high // 2, high // 2, high])
        terrain.height_field_raw[x : x + width, y : y + length] = height
    terrain.height_field_raw[_platform(terrain, platform_size)] = 0
    return terrain


def wave_terrain(terrain: SubTerrain, num_waves: int = 1, amplitude: float = 1.0) -> SubTerrain:
    """Add waves along both sides."""
    if num_waves > 0:
        high = int(0.5 * amplitude / terrain.vertical_scale)
        wave = terrain.length / (2 * np.pi * num_waves)
        x, y = np.arange(terrain.width)[:, None] / wave, np.arange(terrain.length)[None, :] / wave
        terrain.height_field_raw += (high * (np.cos(y) + np.sin(x))).astype(np.int16)
    return terrain


def stairs_terrain(terrain: SubTerrain, step_width: float, step_height: float) -> SubTerrain:
    """Add stairs along x; sizes in m."""
    width = max(1, int(step_width / terrain.horizontal_scale))
    height = int(step_height / terrain.vertical_scale)
    steps = 1 + np.arange(terrain.width) // width
    steps[terrain.width // width * width :] = 0
    terrain.height_field_raw += (height * steps)[:, None].astype(np.int16)
    return terrain


def pyramid_stairs_terrain(
    terrain: SubTerrain, step_width: float, step_height: float, platform_size: float = 1.0
) -> SubTerrain:
    """Make stairs from all sides up to a platform; sizes in m."""
    width = max(1, int(step_width / terrain.horizontal_scale))
    height = int(step_height / terrain.vertical_scale)
    platform = int(platform_size / terrain.horizontal_scale)
    inset, level = width, height
    while min(terrain.width, terrain.length) - 2 * (inset - width) > platform:
        ends = terrain.width - inset, terrain.length - inset
        if inset >= min(ends):
            break
        terrain.height_field_raw[inset : ends[0], inset : ends[1]] = level
        inset, level = inset + width, level + height
    return terrain


def stepping_stones_terrain(
    terrain: SubTerrain,
    stone_size: float,
    stone_distance: float,
    max_height: float,
    platform_size: float = 1.0,
    depth: float = -10,
) -> SubTerrain:
    """Make rows of square stones above a pit, and a platform in the middle; sizes in m."""
    size = max(1, int(stone_size / terrain.horizontal_scale))
    gap = int(stone_distance / terrain.horizontal_scale)
    high = int(max_height / terrain.vertical_scale)
    levels = np.arange(-high - 1, high + 1)
    heights = terrain.height_field_raw
    heights[:] = int(depth / terrain.vertical_scale)
    for y in range(0, terrain.length, size + gap):
        for x in range(-np.random.randint(0, size), terrain.width, size + gap):
            heights[max(0, x) : max(0, x + size), y : y + size] = np.random.choice(levels)
    heights[_platform(terrain, platform_size)] = 0
    return terrain


def _platform(terrain: SubTerrain, size: float) -> tuple[slice, slice]:
    half = int(size / terrain.horizontal_scale / 2)
    x, y = terrain.width // 2, terrain.length // 2
    return slice(x - half, x + half), slice(y - half, y + half)


def convert_heightfield_to_trimesh(
    height_field_raw: np.ndarray,
    horizontal_scale: float,
    vertical_scale: float,
    slope_threshold: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices in m, ``(n, 3)`` float32, and triangles, ``(m, 3)`` uint32, of heights.

    ``slope_threshold`` has no effect: the grid of heights is simulated, in which a wall
    rises over one cell.
    """
    rows, columns = height_field_raw.shape
    x, y = np.meshgrid(
        np.arange(rows) * horizontal_scale, np.arange(columns) * horizontal_scale, indexing="ij"
    )
    vertices = np.stack((x, y, height_field_raw * vertical_scale), axis=-1)
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    across = corner + columns + 1
    upper = np.stack((corner, across, corner + 1), axis=-1)
    lower = np.stack((corner, corner + columns, across), axis=-1)
    triangles = np.stack((upper, lower), axis=1).reshape(-1, 3)
    return vertices.reshape(-1, 3).astype(np.float32), triangles.astype(np.uint32)
