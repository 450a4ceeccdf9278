"""Houses for tests, each made once, and free places in them."""

from __future__ import annotations

import functools
import math
import tempfile

import numpy as np
import torch

from envlab_navigation.house import AGENT_HEIGHT, CELL
from envlab_navigation.house_cache import Arrays, HouseCache
from envlab_navigation.house_set import HouseSet
from envlab_navigation.nav_cfg import HousesCfg

FOLDER = tempfile.TemporaryDirectory()
"""Where houses are kept, each made once."""


@functools.cache
def load(split: str = "train", index: int = 0) -> Arrays:
    """Return a house."""
    return HouseCache(FOLDER.name).load(split, index)


def make_set(num_houses: int = 3, *, max_episode_length: int = 20, **fields) -> HouseSet:
    """Return a set of houses for PointNav."""
    cfg = HousesCfg(num_houses=num_houses, **({"cache_dir": FOLDER.name} | fields))
    return HouseSet(
        cfg,
        goals=list(range(12, 20)),
        start_range_m=(1.0, 50.0),
        max_episode_length=max_episode_length,
        device=torch.device("cpu"),
    )


def clearance(walls: np.ndarray, primitives: np.ndarray, at: np.ndarray) -> float:
    """Return how near places, ``(num, 2)``, come to a wall or to an object that agents touch."""
    low, nearest = primitives[primitives[:, 4] < AGENT_HEIGHT], math.inf
    for cx, cy, half_x, half_y, *rest in [*walls.tolist(), *low.tolist()]:
        if half_x > 0:
            far = np.abs(at - (cx, cy))
            if rest and rest[2] > 0:  # it is round
                clear = np.hypot(*far.T) - half_x
            else:
                clear = np.hypot(*(far - (half_x, half_y)).clip(0).T)
            nearest = min(nearest, float(clear.min()))
    return nearest


def draw_poses(house: Arrays, num: int, seed: int, tan_pitches=(0.0,)) -> np.ndarray:
    """Return places to stand and directions to look in, ``(num, 5)``."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(house["free"])
    chosen = rng.integers(len(rows), size=num)
    pose = np.zeros((num, 5), np.float32)
    pose[:, 0] = (columns[chosen] + rng.uniform(0.1, 0.9, num)) * CELL
    pose[:, 1] = (rows[chosen] + rng.uniform(0.1, 0.9, num)) * CELL
    pose[:, 2], pose[:, 3] = 0.88, rng.uniform(0, 2 * np.pi, num)
    pose[:, 4] = rng.choice(tan_pitches, num)
    return pose
