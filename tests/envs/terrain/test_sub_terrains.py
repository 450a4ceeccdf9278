"""Kinds of ground, by heights computed by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from envlab.envs.terrain import (
    HfDiscreteObstaclesTerrainCfg,
    HfInvertedPyramidSlopedTerrainCfg,
    HfPyramidSlopedTerrainCfg,
    HfRandomUniformTerrainCfg,
    HfSteppingStonesTerrainCfg,
    HfWaveTerrainCfg,
    MeshInvertedPyramidStairsTerrainCfg,
    MeshPlaneTerrainCfg,
    MeshPyramidStairsTerrainCfg,
    MeshRandomGridTerrainCfg,
    SubTerrainCfg,
)
from envlab.envs.terrain.generator import Tile
from tests.envs.refusals import assert_refused

TILE = Tile((8.0, 8.0), 0.1, 0.005)
MIDDLE = 40  # the vertex at 4 m


def build(cfg: SubTerrainCfg, difficulty: float = 1.0, seed: int = 0) -> tuple[np.ndarray, float]:
    return cfg.build(TILE, difficulty, np.random.default_rng(seed))


SIZES = {"step_width": 0.3, "platform_width": 3.0, "border_width": 1.0}
STAIRS = MeshPyramidStairsTerrainCfg(step_height_range=(0.05, 0.25), **SIZES)
KINDS = [
    STAIRS,
    MeshPlaneTerrainCfg(),
    MeshRandomGridTerrainCfg(grid_width=0.45, grid_height_range=(0.05, 0.2)),
    HfRandomUniformTerrainCfg(noise_range=(0.02, 0.1), noise_step=0.02),
    HfPyramidSlopedTerrainCfg(slope_range=(0.0, 0.4)),
    HfWaveTerrainCfg(amplitude_range=(0.1, 0.4), num_waves=2),
    HfDiscreteObstaclesTerrainCfg(
        obstacle_width_range=(0.25, 0.75), obstacle_height_range=(0.05, 0.2), num_obstacles=40
    ),
    HfSteppingStonesTerrainCfg(
        stone_height_max=0.1, stone_width_range=(0.25, 1.5), stone_distance_range=(0.05, 0.3)
    ),
]


@pytest.mark.parametrize("cfg", KINDS, ids=lambda cfg: type(cfg).__name__)
def test_tiles_meet_at_height_zero_and_repeat_from_their_seed(cfg):
    heights, top = build(cfg)
    assert heights.shape == TILE.shape == (81, 81)
    for edge in (heights[0], heights[-1], heights[:, 0], heights[:, -1]):
        assert (edge == 0.0).all()
    assert top >= heights[MIDDLE, MIDDLE] - 1e-9
    again, _ = build(cfg)
    assert np.array_equal(heights, again)


def test_holes_leave_a_cross_as_wide_as_the_platform():
    up = dataclasses.replace(STAIRS, holes=True, hole_depth=2.0)
    down = MeshInvertedPyramidStairsTerrainCfg(step_height_range=(0.05, 0.25), holes=True, **SIZES)
    blocks = MeshRandomGridTerrainCfg(grid_width=0.45, grid_height_range=(0.05, 0.2))
    dug = dataclasses.replace(blocks, holes=True, platform_width=2.0)
    lowest = build(dataclasses.replace(blocks, platform_width=2.0))[0].min()
    # Stairs go down by seven steps of 0.25 m, below which holes are 1 m deep.
    for cfg, half, bottom in ((up, 1.5, -2.0), (down, 1.5, -2.75), (dug, 1.0, lowest - 1.0)):
        (heights, top), (plain, _) = build(cfg), build(dataclasses.replace(cfg, holes=False))
        first, last = (round(10 * (4.0 + side * half)) for side in (-1, 1))
        lane = slice(first, last + 1)
        assert np.array_equal(heights[lane], plain[lane])
        assert np.array_equal(heights[:, lane], plain[:, lane])
        for corner in (slice(1, first), slice(last + 1, -1)):
            assert np.allclose(heights[corner, corner], bottom)
        assert heights[MIDDLE, MIDDLE] == pytest.approx(top)


def test_stairs_rise_from_all_sides_to_a_platform_or_lead_down():
    heights, top = build(STAIRS, difficulty=0.25)  # steps of 0.1 m
    row = heights[:, MIDDLE]
    # The flat border ends at 1 m, six steps of 0.3 m follow, at 2.8 m the platform begins.
    for x, height in ((0.9, 0.0), (1.0, 0.1), (1.2, 0.1), (1.3, 0.2), (2.7, 0.6), (2.8, 0.7)):
        assert row[round(10 * x)] == pytest.approx(height), x
    assert row[MIDDLE] == top == pytest.approx(0.7)
    assert np.allclose(heights, heights[::-1])
    assert np.allclose(heights, heights.T)
    inverted = MeshInvertedPyramidStairsTerrainCfg(step_height_range=(0.05, 0.25), **SIZES)
    down, bottom = build(inverted, difficulty=0.25)
    assert np.array_equal(down, -heights)
    assert bottom == pytest.approx(-0.7)


def test_noise_has_the_given_heights_inside_the_border():
    cfg = HfRandomUniformTerrainCfg(noise_range=(0.02, 0.10), noise_step=0.02, border_width=0.25)
    heights, top = build(cfg)
    assert (heights[:3] == 0.0).all()
    assert (heights[3] != 0.0).any()
    inside = np.unique(heights[3:-3, 3:-3].round(6))
    assert inside.tolist() == [0.02, 0.04, 0.06, 0.08, 0.1]
    assert top == pytest.approx(0.1)


def test_slopes_end_in_a_platform_above_or_below():
    sizes = {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25}
    up, down = HfPyramidSlopedTerrainCfg(**sizes), HfInvertedPyramidSlopedTerrainCfg(**sizes)
    heights, top = build(up)
    # Inside the border of 3 cells the hill is 7.4 m wide: the peak would be 0.4 * 3.7 m = 1.48 m,
    # and 2.7 m from the edge along both axes it is (2.7 / 3.7)^2 of that: 0.788 m.
    assert top == heights[MIDDLE, MIDDLE] == pytest.approx(0.79)
    assert (heights[30:51, 30:51] == top).all()
    assert heights[13, MIDDLE] == pytest.approx(0.4, abs=0.005)  # 1 m up the slope of 0.4
    assert (heights[:4] == 0.0).all()
    assert np.array_equal(build(down)[0], -heights)
    assert build(up, difficulty=0.0)[1] == 0.0


def test_waves_run_along_both_axes():
    heights, _ = build(HfWaveTerrainCfg(amplitude_range=(0.0, 0.4), num_waves=2), difficulty=0.5)
    # Inside the outermost cells 7.8 m are two waves: a quarter wave is 0.975 m. At 0.1 + 0.975 m
    # along x the sine is 1, and 0.1 + 1.95 m along y the cosine is -1: 0.1 m * (1 - 1).
    assert heights[1, 1] == pytest.approx(0.1)  # sin 0 + cos 0
    assert heights[11, 1] == pytest.approx(0.2, abs=0.005)
    assert heights.max() == pytest.approx(0.2, abs=0.005)
    assert heights.min() == pytest.approx(-0.2, abs=0.005)


def test_obstacles_leave_a_platform_free():
    cfg = HfDiscreteObstaclesTerrainCfg(
        obstacle_height_mode="fixed",
        obstacle_width_range=(0.25, 0.75),
        obstacle_height_range=(0.0, 0.2),
        num_obstacles=60,
        platform_width=2.0,
    )
    heights, _ = build(cfg)
    assert np.unique(heights).tolist() == [0.0, 0.2]
    assert (heights[30:51, 30:51] == 0.0).all()
    assert 0.02 < (heights > 0.0).mean() < 0.4


def test_stepping_stones_get_smaller_with_the_level():
    cfg = HfSteppingStonesTerrainCfg(
        stone_height_max=0.05,
        stone_width_range=(0.3, 1.5),
        stone_distance_range=(0.1, 0.4),
        holes_depth=-2.0,
        platform_width=2.0,
    )
    shares = [(build(cfg, difficulty=level)[0] > -1.0).mean() for level in (0.0, 1.0)]
    assert shares[0] > 0.75 > 0.45 > shares[1]
    assert np.abs(build(cfg)[0][30:51, 30:51]).max() == 0.0


def test_sizes_that_do_not_fit_are_refused_in_one_sentence():
    wave = {"amplitude_range": (0.1, 0.2)}
    wide = {"step_height_range": (0.1, 0.2), "step_width": 0.3, "platform_width": 6.0}
    stones = {"stone_height_max": 0.1, "stone_distance_range": (0.1, 0.2)}
    boxes = {"obstacle_height_range": (0.1, 0.2), "num_obstacles": 1}
    table = {
        r"MeshPyramidStairsTerrainCfg: borders of 2.0 m, a platform of 6.0 m .* of 8.0 x 8.0": (
            MeshPyramidStairsTerrainCfg(**wide, border_width=2.0)
        ),
        "blocks of 0.5 m leave no border": MeshRandomGridTerrainCfg(
            grid_width=0.5, grid_height_range=(0.1, 0.2)
        ),
        "a border of 4.0 m does not fit": HfWaveTerrainCfg(**wave, border_width=4.0),
        "num_waves is 0": HfWaveTerrainCfg(**wave, num_waves=0),
        "no range of heights": HfRandomUniformTerrainCfg(noise_range=(0.1, 0.02), noise_step=0.02),
        "a platform of 9.0 m does not fit": HfPyramidSlopedTerrainCfg(
            slope_range=(0.0, 0.4), platform_width=9.0
        ),
        r"obstacle_width_range is \[1.0, 9.0\]": HfDiscreteObstaclesTerrainCfg(
            obstacle_width_range=(1.0, 9.0), **boxes
        ),
        "stones of 9 m every 9.2 m do not fit": HfSteppingStonesTerrainCfg(
            stone_width_range=(9.0, 9.0), **stones
        ),
    }
    tile = Tile((8.0, 8.0), 0.3, 0.005)
    plane, rng = MeshPlaneTerrainCfg(), np.random.default_rng(0)
    assert_refused(
        {words: lambda cfg=cfg: build(cfg) for words, cfg in table.items()}
        | {r"tiles of 8.0 x 8.0 m and a horizontal_scale of": lambda: plane.build(tile, 0.0, rng)}
    )
