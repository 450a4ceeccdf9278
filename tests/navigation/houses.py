"""Houses for tests, each made once, and places to stand in them."""

from __future__ import annotations

import functools
import tempfile

import numpy as np
import torch

from envlab_navigation.house import CELL
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
