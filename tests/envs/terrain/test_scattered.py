"""Noise, blocks, stones, beams and bars: heights against their definitions in metres."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envlab.envs.terrain import (
    BoxFlatTerrainCfg,
    BoxInvertedPyramidStairsTerrainCfg,
    BoxNarrowBeamsTerrainCfg,
    BoxPyramidStairsTerrainCfg,
    BoxRandomGridTerrainCfg,
    BoxRandomSpreadTerrainCfg,
    BoxSteppingStonesTerrainCfg,
    BoxTiltedGridTerrainCfg,
    HfInvertedPyramidStairsTerrainCfg,
    HfPerlinNoiseTerrainCfg,
    HfPyramidStairsTerrainCfg,
    MeshStarTerrainCfg,
)
from tests.envs.refusals import assert_refused
from tests.envs.terrain.test_rings import MIDDLE, build, check

PERLIN = HfPerlinNoiseTerrainCfg(height_range=(0.0, 1.0), border_width=0.5)
STAR = MeshStarTerrainCfg(num_bars=2, bar_width_range=(0.2, 0.6), bar_height_range=(0.5, 1.0))
DRAWN = [
    PERLIN,
    BoxRandomGridTerrainCfg(grid_width=0.4, grid_height_range=(0.0, 0.3)),
    BoxRandomSpreadTerrainCfg(),
    BoxSteppingStonesTerrainCfg(),
    BoxTiltedGridTerrainCfg(),
]


@pytest.mark.parametrize("cfg", DRAWN, ids=lambda cfg: type(cfg).__name__)
def test_ground_that_is_drawn_depends_on_its_seed_alone(cfg):
    heights, _ = build(cfg)
    assert np.array_equal(build(cfg)[0], heights)
    assert not np.array_equal(build(cfg, seed=1)[0], heights)


def test_noise_is_smooth_and_has_its_height():
    heights, _ = build(PERLIN, 0.5)
    inside = heights[6:-6, 6:-6]
    assert (inside.min(), inside.max()) == pytest.approx((0.0, 0.5), abs=1e-9)
    assert not heights[:6].any()
    smooth, _ = build(HfPerlinNoiseTerrainCfg(height_range=(0.0, 1.0), octaves=1, scale=4.0))
    # Two cells of 3.9 m, of a slope of about 1 / 2 m between 0 and 1 m.
    assert np.abs(np.diff(smooth[1:-1, 1:-1], axis=0)).max() < 0.15
    assert not build(PERLIN, 0.0)[0].any()


def test_noise_is_zero_at_the_corners_of_its_cells():
    """Each corner's slope counts from that corner, so all corners have the same height."""
    heights, _ = build(HfPerlinNoiseTerrainCfg(height_range=(1.0, 1.0), octaves=1, scale=12.0))
    corners = heights[1:-1, 1:-1][::13, ::13]  # 6 cells on 78 intervals inside the outermost cells
    assert corners.shape == (7, 7)
    assert np.ptp(corners[1:-1, 1:-1]) < 1e-9


def test_blocks_stand_inside_a_border():
    cfg = BoxRandomGridTerrainCfg(
        grid_width=0.5, grid_height_range=(0.0, 0.3), border_width=0.9, platform_width=2.0
    )
    heights, top = build(cfg)
    assert top == pytest.approx(0.3)
    assert not heights[:10].any()  # 12 blocks of 0.5 m leave 1 m
    assert heights[10, 10] != 0.0
    check(heights, (1.0, 0.3), (3.1, 0.0))


def test_blocks_are_spread_around_the_platform():
    cfg = BoxRandomSpreadTerrainCfg(
        num_boxes=40,
        box_width_range=(0.5, 0.5),
        box_length_range=(0.5, 0.5),
        box_height_range=(0.3, 0.3),
        box_yaw_range=(0.0, 0.0),
        platform_width=2.0,
        border_width=1.0,
    )
    heights, top = build(cfg, 0.5)
    assert top == 0.0
    assert np.unique(heights.round(6)).tolist() == [0.0, 0.18]  # 0.3 * (0.2 + 0.8 * 0.5)
    assert not heights[:10].any()
    assert not heights[30:51, 30:51].any()
    assert 0.05 < (heights > 0.0).mean() < 30 * 0.25 / 64
    easy = BoxRandomSpreadTerrainCfg(num_boxes=1)
    assert not build(easy, 0.0)[0].any()  # half of one block is none


def test_stones_shrink_on_their_places():
    cfg = BoxSteppingStonesTerrainCfg(
        stone_size_range=(0.4, 0.8),
        stone_distance_range=(0.2, 0.5),
        stone_height_variation=0.0,
        stone_size_variation=0.0,
        displacement_range=0.0,
        border_width=0.5,
    )
    # Inside the border of 0.5 m 7 m hold 7 pitches of at least 1 m: stones at 0.5, 1.5, ... 7.5 m.
    for difficulty, half in ((0.0, 0.4), (1.0, 0.2)):
        heights, top = build(cfg, difficulty)
        assert top == 0.2
        line = heights[:, 15]  # through the stones at 1.5 m
        for stone in (1.5, 2.5, 5.5):
            is_stone = np.abs(np.arange(81) / 10 - stone) <= half + 1e-6
            near = np.abs(np.arange(81) / 10 - stone) <= 0.5
            assert (line[is_stone] == 0.2).all()
            assert (line[near & ~is_stone] == -2.0).all()
        check(heights, (0.5, 0.2), (3.6, 0.2))


def test_beams_lead_from_the_platform_to_the_border():
    cfg = BoxNarrowBeamsTerrainCfg(num_beams=4, beam_width_range=(0.2, 0.6), platform_width=0.4)
    heights, top = build(cfg, 0.0)
    assert top == 0.2
    check(heights, *((distance, 0.2) for distance in (0.0, 1.0, 2.0, 3.5)))
    across = heights[20]  # 2 m from the middle
    assert (across[37:44] == 0.2).all()
    assert across[36] == across[44] == -2.0
    assert (build(cfg)[0][20] == 0.2).sum() == 3 + 4  # 0.2 m, and two vertices of each border


def test_a_star_has_bars_from_side_to_side():
    heights, top = build(STAR, 0.5)
    assert top == 0.0
    check(heights, *((distance, 0.0) for distance in (0.0, 1.0, 2.0, 3.9)))
    assert (heights[20, 38:43] == 0.0).all()  # 0.4 m
    assert heights[20, 37] == heights[20, 43] == pytest.approx(-0.75)
    radius = [math.hypot(4, 2) / 10, math.hypot(5, 2) / 10]
    assert radius[0] < 0.5 < radius[1]  # the platform is round
    assert heights[MIDDLE + 4, MIDDLE + 3] == 0.0
    assert heights[MIDDLE + 4, MIDDLE + 4] == pytest.approx(-0.75)


def test_tilted_blocks_are_planes():
    cfg = BoxTiltedGridTerrainCfg(grid_width=1.0, tilt_range_deg=15.0, height_range=0.1)
    heights, top = build(cfg)
    assert top == 0.2
    # Seven blocks of 1 m begin at 0.5 m; the vertices of the second are from 1.5 to 2.4 m.
    block = heights[15:25, 5:15]
    for axis in (0, 1):
        slopes = np.diff(block, axis=axis) / 0.1
        assert np.ptp(slopes) < 1e-6
        assert abs(slopes.mean()) <= math.radians(15.0)
    assert np.diff(block, axis=0).mean() != 0.0
    middle = (
        block.mean() + 0.05 * (np.diff(block, axis=0).mean() + np.diff(block, axis=1).mean()) / 0.1
    )
    assert abs(middle - 0.2) <= 0.05 + 1e-6
    check(heights, (0.5, 0.2), (3.6, 0.2))
    flat = build(cfg, 0.0)[0]
    assert np.unique(flat[1:-1, 1:-1]).tolist() == [0.2]


def test_stairs_of_height_fields_begin_one_step_inside():
    sizes = {"step_height_range": (0.1, 0.3), "step_width": 0.5, "platform_width": 2.8}
    heights, top = build(HfPyramidStairsTerrainCfg(**sizes), 0.5)
    # Inside the outermost cells 7.8 m: (7.8 - 2.8) / 1 = 5 steps, the first at 0.1 + 0.5 m.
    assert top == pytest.approx(1.0)
    check(heights, (3.5, 0.0), (3.4, 0.2), (3.0, 0.2), (2.9, 0.4), (1.4, 1.0), (0.0, 1.0))
    down = build(HfInvertedPyramidStairsTerrainCfg(**sizes), 0.5)[0]
    assert np.array_equal(down, -heights)


def test_mjlabs_names_of_the_same_ground():
    sizes = {"step_height_range": (0.1, 0.1), "step_width": 0.5, "platform_width": 3.0}
    assert not build(BoxFlatTerrainCfg())[0].any()
    up = build(BoxPyramidStairsTerrainCfg(**sizes))[0]
    assert np.array_equal(build(BoxInvertedPyramidStairsTerrainCfg(**sizes))[0], -up)
    check(up, (3.9, 0.1), (3.4, 0.2), (0.0, 0.7))


def test_obstacles_that_do_not_fit_are_refused_in_one_sentence():
    steps = {"step_height_range": (0.1, 0.1), "platform_width": 1.0}
    table = {
        "blocks of 7.6 m and borders": BoxRandomSpreadTerrainCfg(box_width_range=(0.1, 7.6)),
        "stones are 0 m wide, every 0.2 m": BoxSteppingStonesTerrainCfg(stone_size_range=(0, 0)),
        "blocks of 9.0 m do not fit": BoxTiltedGridTerrainCfg(grid_width=9.0),
        "a platform of 8.0 m": BoxNarrowBeamsTerrainCfg(platform_width=8.0),
        "bars of 4 m need 9 m": MeshStarTerrainCfg(
            num_bars=2, bar_width_range=(4.0, 4.0), bar_height_range=(1.0, 1.0)
        ),
        "1 steps of 5.0 m on each side do not fit into 7.8 m": HfPyramidStairsTerrainCfg(
            step_width=5.0, **steps
        ),
    }
    assert_refused({words: lambda cfg=cfg: build(cfg) for words, cfg in table.items()})
