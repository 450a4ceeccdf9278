"""Warp kernel of geodesic distances: one source for CPU and CUDA."""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

FAR = wp.constant(50.0)
"""In m: farther than any path in a house."""


@wp.kernel
def sweep(
    free: wp.array2d(dtype=wp.uint8),
    cell: float,
    max_sweeps: int,
    distance: wp.array3d(dtype=float),
):
    """Solve the eikonal equation of unit speed over free cells, a thread for each goal.

    Args:
        free: Cells that can be walked on, ``GRID``.
        cell: Side of a cell, in m.
        max_sweeps: Rounds of four sweeps; stops early without changes.
        distance: ``(num_goals, *GRID)``, 0 at goals and ``FAR`` elsewhere; updated.
    """
    m = wp.tid()
    ny = free.shape[0]
    nx = free.shape[1]
    for _ in range(max_sweeps):
        changed = int(0)
        for direction in range(4):
            for ii in range(ny):
                i = ii
                if direction >= 2:
                    i = ny - 1 - ii
                for jj in range(nx):
                    j = jj
                    if direction % 2 == 1:
                        j = nx - 1 - jj
                    if free[i, j] != wp.uint8(0) and distance[m, i, j] > 0.0:
                        a = FAR
                        b = FAR
                        if j > 0:
                            a = distance[m, i, j - 1]
                        if j < nx - 1:
                            a = wp.min(a, distance[m, i, j + 1])
                        if i > 0:
                            b = distance[m, i - 1, j]
                        if i < ny - 1:
                            b = wp.min(b, distance[m, i + 1, j])
                        d = wp.min(a, b) + cell
                        if wp.abs(a - b) < cell:
                            d = 0.5 * (a + b + wp.sqrt(2.0 * cell * cell - (a - b) * (a - b)))
                        if d < distance[m, i, j] - 1.0e-5:
                            distance[m, i, j] = d
                            changed = int(1)
        if changed == 0:
            break
