"""Geodesic distances to every goal of a house, by fast sweeping of the eikonal equation.

Method: Zhao, "A fast sweeping method for eikonal equations", Mathematics of Computation 74 (2005).
It runs on the CPU for cameras on any device, so that a house always has the same distances.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from envlab_navigation.geodesic_kernels import sweep
from envlab_navigation.house import CELL, House

UNREACHABLE = 32_000
"""In mm, the value of cells without a path to the goal, or with a longer path."""
_FAR_M = 50.0
_MAX_SWEEPS = 12


def distance_fields(house: House) -> np.ndarray:
    """Return the distance from every cell to every goal, int16 ``(NUM_GOALS, *GRID)``, in mm.

    A sliding agent touches blocked cells, because the grid is coarser than the walls:
    distances reach two cells beyond the free ones.
    """
    field = np.where(house.zones, np.float32(0), np.float32(_FAR_M))
    free = house.free.astype(np.uint8)
    wp.launch(
        sweep,
        dim=len(field),
        inputs=[wp.array(free, device="cpu", copy=False), CELL, _MAX_SWEEPS],
        outputs=[wp.array(field, device="cpu", copy=False)],
        device="cpu",
    )
    for _ in range(2):
        field = np.where(field >= _FAR_M, _lowest_neighbour(field) + np.float32(CELL), field)
    return np.minimum(np.rint(field * 1000), UNREACHABLE).astype(np.int16)


def _lowest_neighbour(field: np.ndarray) -> np.ndarray:
    """Return the lowest value of the nine cells around each, like ``field``."""
    padded = np.pad(field, ((0, 0), (1, 1), (1, 1)), constant_values=np.float32(_FAR_M))
    rows = np.minimum(np.minimum(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    return np.minimum(np.minimum(rows[..., :-2], rows[..., 1:-1]), rows[..., 2:])
