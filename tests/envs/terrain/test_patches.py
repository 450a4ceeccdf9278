"""Flat patches: flat all over, inside their tile and ranges, the same for a seed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envlab.envs.terrain import (
    FlatPatchSamplingCfg,
    HfDiscreteObstaclesTerrainCfg,
    MeshFloatingRingTerrainCfg,
    MeshPlaneTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab.envs.terrain.generator import Ground, generate
from tests.envs.refusals import assert_refused
from tests.envs.terrain.hills import make_env

OBSTACLES = {
    "obstacle_width_range": (0.3, 1.0),
    "obstacle_height_range": (0.1, 0.3),
    "num_obstacles": 12,
}


def made(kind=None, **changes) -> Ground:
    """Return ground of 2 x 2 tiles of 6 x 4 m: obstacles with patches, or a kind."""
    patches = {"init_pos": FlatPatchSamplingCfg(num_patches=20, patch_radius=0.35, **changes)}
    kind = kind or HfDiscreteObstaclesTerrainCfg(**OBSTACLES, flat_patch_sampling=patches)
    return generate(
        TerrainGeneratorCfg(size=(6.0, 4.0), num_rows=2, num_cols=2, sub_terrains={"kind": kind})
    )


def in_tile(ground: Ground, row: int, column: int) -> np.ndarray:
    """Return a tile's patches from its corner, in m."""
    corner = np.array([row * 6.0 - 6.0, column * 4.0 - 4.0, 0.0])
    return ground.flat_patches["init_pos"][row, column] - corner


def test_patches_are_flat_all_over_and_inside_their_tile():
    ground = made(max_height_diff=0.02)
    heights = ground.heights
    assert np.ptp(heights) > 0.2
    xs, ys = np.arange(121) * 0.1 - 6.0, np.arange(81) * 0.1 - 4.0
    for row in range(2):
        for column in range(2):
            local = in_tile(ground, row, column)
            assert (local[:, :2] >= 0.35 - 1e-6).all()
            assert (local[:, :2] <= np.array([6.0, 4.0]) - 0.35 + 1e-6).all()
            for x, y, z in ground.flat_patches["init_pos"][row, column]:
                near = heights[np.hypot(*np.meshgrid(xs - x, ys - y, indexing="ij")) <= 0.36]
                assert near.size >= 37
                assert np.abs(near - z).max() <= 0.02
            assert len(np.unique(local, axis=0)) == 20


def test_patches_keep_to_their_ranges_from_the_middle():
    level = {"patch": FlatPatchSamplingCfg(x_range=(1.0, 2.0), y_range=(-0.5, 0.0))}
    ground = made(MeshPlaneTerrainCfg(flat_patch_sampling=level))
    found = ground.flat_patches["patch"] - ground.origins[:, :, None]
    assert found.shape == (2, 2, 10, 3)
    assert (found.min(axis=(0, 1, 2)) >= (1.0 - 1e-6, -0.5 - 1e-6, 0.0)).all()
    assert (found.max(axis=(0, 1, 2)) <= (2.0 + 1e-6, 1e-6, 0.0)).all()


@pytest.mark.parametrize(("heights", "z"), [((0.5, 2.0), 0.9), ((-0.1, 0.1), 0.0)])
def test_patches_may_be_on_what_floats(heights, z):
    sampling = FlatPatchSamplingCfg(num_patches=4, patch_radius=[0.1, 0.2], z_range=heights)
    ring = MeshFloatingRingTerrainCfg(
        ring_width_range=(0.8, 0.8),
        ring_height_range=(0.8, 0.8),
        ring_thickness=0.1,
        platform_width=2.0,
        flat_patch_sampling={"init_pos": sampling},
    )
    assert np.allclose(made(ring).flat_patches["init_pos"][..., 2], z)


def test_patches_that_say_nothing_are_refused_in_one_sentence():
    def cfg(**values):
        kind = MeshPlaneTerrainCfg(flat_patch_sampling={"spawn": FlatPatchSamplingCfg(**values)})
        generator = TerrainGeneratorCfg(num_rows=1, num_cols=1, sub_terrains={"kind": kind})
        return lambda: make_env(2, ground=TerrainCfg(terrain_generator=generator))

    where = r"kind\.flat_patch_sampling\.spawn\."
    assert_refused(
        {
            where + r"patch_radius is \[\], but must be": cfg(patch_radius=[]),
            where + r"x_range is \[2.0, 1.0\]": cfg(x_range=(2.0, 1.0)),
            where + r"num_patches": cfg(num_patches=0),
            where + r"patch_radius.* is -0.1": cfg(patch_radius=[0.1, -0.1]),
        }
    )


def test_ground_without_a_flat_place_is_refused_in_one_sentence():
    words = r"row 0, column 0 is as flat as .*sub_terrains\.kind\.flat_patch_sampling\.init_pos"
    assert_refused(
        {
            words: lambda: made(z_range=(5.0, 6.0)),
            "widen its ranges": lambda: made(x_range=(2.9, math.inf)),
        }
    )
