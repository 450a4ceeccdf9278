"""Terrains of triangles as grids of heights: MuJoCo would replace a mesh by its convex hull."""

from __future__ import annotations

import numpy as np

from envlab.errors import ConfigurationError

_FINEST = 0.05
"""Smallest size of a cell, in m."""
_MOST_POINTS = 2_000_000
"""Most points of a grid: all are drawn in each picture, 8 a second with software OpenGL."""
_AT_ONCE = 4_000_000
"""Pairs of a triangle and a nearby point that are processed together, to bound memory."""


def grid_of(
    points: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, tuple[float, float], np.ndarray]:
    """Return the upper surface of a mesh: heights in m, ``(along x, along y)``, cell and corner.

    A mesh of a grid is reproduced. For others, such as those that pydelatin and pyfqmr make
    of a grid by leaving vertices out, cells are as large as the smallest vertex distance along
    an axis, of 5 cm or more, and large enough for two million points.

    Args:
        points: Vertices in m, ``(num_points, 3)``.
        triangles: Indices of vertices, ``(num_triangles, 3)``.

    Raises:
        ConfigurationError: If nothing in it can be stood on.
    """
    columns = int(np.abs(triangles[0] - triangles[0, 0]).max()) - 1 if len(triangles) else 0
    rows = len(points) // max(1, columns)
    if (
        columns >= 2
        and rows * columns == len(points)
        and len(triangles) == 2 * (rows - 1) * (columns - 1)
    ):
        # Vertices that were moved sideways for upright walls return to their grid positions.
        grid = points.reshape(rows, columns, 3)
        steps = np.diff(grid[:, 0, 0]), np.diff(grid[0, :, 1])
        return grid[..., 2], (float(np.median(steps[0])), float(np.median(steps[1]))), grid[0, 0]
    low = points.min(axis=0) if len(points) else np.zeros(3)
    size = (points.max(axis=0) - low)[:2] if len(points) else np.zeros(2)
    corners = points[triangles] if len(triangles) else np.zeros((0, 3, 3))
    turns = _cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    corners = corners[np.abs(turns) > 1e-12]  # vertical ones have no upper side
    if not len(corners):
        raise ConfigurationError(
            f"Gym.add_triangle_mesh: the mesh has {len(points)} vertices and {len(triangles)} "
            "triangles, but all of these are vertical, so it carries no actor."
        )
    cell = max(_least_gap(points), float(np.sqrt(size.prod() / _MOST_POINTS)))
    shape = np.ceil(size / cell - 1e-6).astype(int) + 1
    heights = np.full(shape, -np.inf)
    _rasterise(heights, (corners - low) / [cell, cell, 1.0])
    heights[np.isinf(heights)] = 0.0  # holes, at the lowest
    return heights + low[2], (cell, cell), low


def _cross(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]


def _least_gap(points: np.ndarray) -> float:
    gaps = np.concatenate([np.diff(np.unique(points[:, axis].round(4))) for axis in range(2)])
    wide = gaps[gaps > 0.99 * _FINEST]
    return float(wide.min()) if len(wide) else 1.0


def _rasterise(heights: np.ndarray, corners: np.ndarray) -> None:
    """Write the heights of triangles, whose sides are in cells; the highest wins."""
    first = np.ceil(corners[..., :2].min(axis=1) - 1e-6).astype(int)
    counts = np.floor(corners[..., :2].max(axis=1) + 1e-6).astype(int) - first + 1
    sizes = counts.prod(axis=1).clip(0)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(corners):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        owner = np.repeat(np.arange(start, stop), sizes[start:stop])
        place = np.arange(len(owner)) - np.repeat(
            ends[start:stop] - sizes[start:stop] - done, sizes[start:stop]
        )
        cells = first[owner] + np.stack(np.divmod(place, counts[owner, 1]), axis=-1)
        a, b, c = np.moveaxis(corners[owner], 1, 0)
        whole = _cross(b - a, c - a)
        to_b = _cross(cells - a[:, :2], (c - a)[:, :2]) / whole
        to_c = _cross((b - a)[:, :2], cells - a[:, :2]) / whole
        inside = (to_b > -1e-6) & (to_c > -1e-6) & (to_b + to_c < 1 + 1e-6)
        z = a[:, 2] + to_b * (b - a)[:, 2] + to_c * (c - a)[:, 2]
        np.maximum.at(heights, tuple(cells[inside].T), z[inside])
        start = stop
