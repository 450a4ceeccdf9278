"""Objects in random places: heights against their definitions in metres."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envlab.envs.terrain import (
    MeshRepeatedBoxesTerrainCfg,
    MeshRepeatedCylindersTerrainCfg,
    MeshRepeatedPyramidsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from tests.envs.refusals import assert_refused
from tests.envs.terrain.hills import make_env
from tests.envs.terrain.test_rings import build, check

BOX = MeshRepeatedBoxesTerrainCfg.ObjectCfg
ROUND = MeshRepeatedPyramidsTerrainCfg.ObjectCfg


def boxes(**changes) -> MeshRepeatedBoxesTerrainCfg:
    """Return 10 to 30 boxes of 0.2 to 0.4 m, half of it above the ground."""
    objects = {
        "object_params_start": BOX(num_objects=10, height=0.2, size=(0.6, 0.4)),
        "object_params_end": BOX(num_objects=30, height=0.4, size=(1.0, 0.8)),
    }
    return MeshRepeatedBoxesTerrainCfg(**(objects | {"platform_width": 2.0} | changes))


def rounds(kind, **changes):
    """Return one object with a radius of 1 m and a height of 0.8 m."""
    one = {"num_objects": 1, "height": 0.8, "radius": 1.0} | changes
    return kind(object_params_start=ROUND(**one), object_params_end=ROUND(**one))


def test_boxes_are_half_above_the_ground_and_so_is_the_platform():
    heights, top = build(boxes(), 0.5)
    assert top == pytest.approx(0.15)
    assert np.unique(heights.round(6)).tolist() == [0.0, 0.15]
    check(heights, (0.0, 0.15), (1.0, 0.15))
    assert build(boxes(platform_height=0.5), 0.5)[1] == 0.25
    covered = (build(boxes(platform_height=0.0))[0] > 0.0).mean()
    assert 0.1 < covered < 30 * 0.8 / 64  # 30 boxes of 0.8 square metres, which may overlap
    assert np.array_equal(build(boxes(), 0.5)[0], heights)
    assert not np.array_equal(build(boxes(), 0.5, seed=1)[0], heights)


def test_heights_of_objects_differ_by_their_noise():
    heights, _ = build(boxes(rel_height_noise=(0.5, 1.0), abs_height_noise=(0.1, 0.1)))
    found = np.unique(heights.round(9))
    assert found.size > 15
    assert found[1] >= 0.5 * (0.2 + 0.1)
    assert found[-1] <= 0.5 * (0.4 + 0.1)
    assert not (build(boxes(abs_height_noise=(-1.0, -1.0), platform_height=0.0))[0]).any()


def test_tilted_boxes_have_slopes_up_to_their_angle():
    end = BOX(num_objects=1, height=1.0, size=(2.0, 2.0), max_yx_angle=20.0)
    for seed in range(4):
        heights, _ = build(boxes(object_params_end=end, platform_height=0.0), seed=seed)
        along, across = np.diff(heights[:, :-1], axis=0) / 0.1, np.diff(heights[:-1], axis=1) / 0.1
        is_inside = heights[:-1, :-1] > 0.0
        slope = np.median(np.hypot(along, across)[is_inside])
        assert (
            0.0 < slope <= math.hypot(math.tan(math.radians(20)), math.tan(math.radians(20))) + 0.1
        )


def test_cylinders_are_flat_and_pyramids_have_a_peak():
    """Of four sides an object covers 2 square metres, of five 2.378; it may reach over an edge."""
    most = 0.0
    for seed in range(6):
        flat = build(rounds(MeshRepeatedCylindersTerrainCfg), seed=seed)[0]
        assert np.unique(flat.round(6)).tolist() == [0.0, 0.4]
        assert ((flat > 0.0).sum() - 121) / 100 < 2.6  # besides the platform
        peak = build(rounds(MeshRepeatedPyramidsTerrainCfg), seed=seed)[0]
        assert peak.max() <= 0.8 + 1e-9
        most = max(most, float(peak.max()))
        steepest = np.abs(np.diff(peak[1:-1, 1:-1], axis=0))
        # 0.8 m up on cos(45 degrees) of 1 m, but for the walls of the platform
        assert (
            np.quantile(steepest[steepest > 1e-9], 0.5) <= 0.8 / math.cos(math.pi / 4) * 0.1 + 1e-6
        )
    assert most > 0.7


def test_objects_that_cannot_be_placed_are_refused_in_one_sentence():
    kinds = {"boxes": boxes(object_params_end=BOX(num_objects=-1, height=0.1, size=(1.0, 1.0)))}
    generator = TerrainGeneratorCfg(num_rows=1, num_cols=1, sub_terrains=kinds)
    assert_refused(
        {
            "platforms of 7.5 m need 8.25 m": lambda: build(boxes(platform_width=7.5)),
            r"boxes\.object_params_end\.num_objects": lambda: make_env(
                2, ground=TerrainCfg(terrain_generator=generator)
            ),
        }
    )
