"""Courses of parkour: sizes of obstacles by hand, flat ends, the success of crossing, bad sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envlab.envs import mdp
from envlab.envs.terrain import (
    ParkourGapsTerrainCfg,
    ParkourHurdlesTerrainCfg,
    ParkourStepsTerrainCfg,
)
from envlab.envs.terrain.generator import Tile
from envlab.errors import ConfigurationError
from tests.envs.sliders import select
from tests.envs.terrain.hills import make_env

TILE = Tile((8.0, 8.0), 0.1, 0.005)


def course(kind, difficulty: float, seed: int = 0) -> np.ndarray:
    """Return the heights along the middle of a tile, from one end to the other."""
    heights, top = kind.build(TILE, difficulty, np.random.default_rng(seed))
    assert heights.shape == (81, 81)
    assert top == 0.0
    for edge in (heights[0], heights[-1], heights[:, 0], heights[:, -1]):
        assert not edge.any()
    assert (heights[:, 1:-1] == heights[:, 40:41]).all()  # there is no way around
    line = heights[:, 40]
    assert not line[32:49].any()  # 1.6 m around the start
    assert not line[:6].any()  # 0.6 m at the ends
    assert not line[-6:].any()
    return line


def runs(line: np.ndarray, value: float) -> list[int]:
    """Return how many vertices each obstacle has that has this height."""
    is_there = np.isclose(line, value).astype(int)
    edges = np.flatnonzero(np.diff(np.pad(is_there, 1)))
    return [int(size) for size in edges[1::2] - edges[::2]]


def test_obstacles_have_the_sizes_of_their_difficulty():
    seen = set()
    for seed in range(4):
        for difficulty, vertices in ((0.0, (1, 2)), (1.0, (6, 7))):
            found = runs(course(ParkourGapsTerrainCfg(), difficulty, seed), -0.6)
            assert len(found) == 4  # two on each side
            assert set(found) <= set(vertices)
        for difficulty, height in ((0.0, 0.1), (0.5, 0.25), (1.0, 0.4)):
            hurdles = course(ParkourHurdlesTerrainCfg(), difficulty, seed)
            assert len(runs(hurdles, height)) == 4
            seen.add(hurdles.tobytes())
            line = course(ParkourStepsTerrainCfg(), difficulty, seed)
            assert len(runs(line, height)) == 4
            assert len(runs(line, 0.5 * height)) == 8  # up and down
            assert line.max() == pytest.approx(height)
    assert len(seen) > 3  # courses differ
    with pytest.raises(ConfigurationError, match=r"2 obstacles of 2 m do not fit into 2\.6 m"):
        course(ParkourGapsTerrainCfg(gap_width_range=(0.1, 2.0)), 1.0)


def test_who_is_past_an_end_of_the_tile_has_crossed_it():
    env = make_env(4)  # tiles of 6 m
    qpos = env.sim.data.qpos.clone()
    qpos[:, 0] = env.env_origins[:, 0] + torch.tensor([2.9, 3.1, -3.1, 0.0])
    qpos[:, 1] = env.env_origins[:, 1] + torch.tensor([0.0, 0.0, 0.0, 5.0])
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos)
    robot = select(env)
    assert mdp.crossed_tile(env, robot).tolist() == [False, True, True, False]
    with pytest.raises(ConfigurationError, match=r"Set env\.success=null"):
        mdp.crossed_tile(make_env(2, plane=True), robot)
