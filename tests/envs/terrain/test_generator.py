"""The grid of tiles: their kinds, difficulties and seeds."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from envlab.envs.terrain import (
    HfRandomUniformTerrainCfg,
    HfWaveTerrainCfg,
    MeshPlaneTerrainCfg,
    TerrainGeneratorCfg,
    rough_terrains,
)
from envlab.envs.terrain.generator import generate
from tests.envs.refusals import assert_refused


def rough(**changes) -> TerrainGeneratorCfg:
    return dataclasses.replace(rough_terrains(), **changes)


def small(**changes) -> TerrainGeneratorCfg:
    noise = HfRandomUniformTerrainCfg(noise_range=(0.0, 0.1), noise_step=0.01)
    settings = {"size": (2.0, 3.0), "num_rows": 3, "num_cols": 2, "sub_terrains": {"noise": noise}}
    return TerrainGeneratorCfg(**(settings | changes))


def test_curriculum_gives_each_column_one_kind_by_proportions_and_rows_their_difficulty():
    ground = generate(rough(curriculum=True))
    assert ground.heights.shape == (801, 1601)
    assert ground.size == (80.0, 160.0)
    assert ground.origins.shape == (10, 20, 3)
    assert ground.origins[0, 0, :2].tolist() == [-36.0, -76.0]
    assert ground.origins[9, 19, :2].tolist() == [36.0, 76.0]
    # Of 20 columns 20 % are 4 and 10 % are 2, in the order of the configuration.
    expected = [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 2 + [5] * 2
    assert (ground.kinds == expected).all()
    tops = ground.origins[:, 0, 2]  # stairs: seven steps of 0.05 to 0.23 m
    assert (np.diff(tops) > 0.0).all()
    for row, top in enumerate(tops):
        low, high = (7 * (0.05 + 0.18 * level / 10) for level in (row, row + 1))
        assert low <= top <= high
    even = generate(rough(curriculum=True, difficulty_range=(0.5, 0.5), num_rows=2))
    assert np.allclose(even.origins[:, 0, 2], 7 * 0.14)


def test_without_curriculum_kinds_and_difficulties_are_mixed():
    ground = generate(rough())
    counts = np.bincount(ground.kinds.ravel(), minlength=6)
    assert counts.min() > 5
    assert counts.sum() == 200
    assert any(len(set(column)) > 1 for column in ground.kinds.T)
    stairs = ground.origins[..., 2][ground.kinds == 0]
    assert stairs.max() - stairs.min() > 0.7


def test_ground_depends_on_the_seed_alone():
    first = generate(small())
    assert np.array_equal(first.heights, generate(small()).heights)
    assert not np.array_equal(first.heights, generate(small(seed=1)).heights)
    # A tile stays as it is when more are added.
    more = generate(small(num_rows=4))
    assert np.array_equal(more.heights[:20], first.heights[:20])


def test_origin_is_the_top_of_the_middle():
    ground = generate(small())
    tile = ground.heights[20:41, 30:61]  # row 1, column 1: the middle is 1 m along both axes
    assert ground.origins[1, 1].tolist() == [0.0, 1.5, tile[:, 5:26].max()]


def test_removed_kinds_do_not_count():
    kinds = {"plane": MeshPlaneTerrainCfg(), "wave": None}
    assert (generate(small(sub_terrains=kinds)).heights == 0.0).all()


def test_ground_that_cannot_be_made_is_refused_in_one_sentence():
    def wave(proportion: float) -> dict[str, object]:
        cfg = HfWaveTerrainCfg(amplitude_range=(0.1, 0.2), proportion=proportion)
        return {"sub_terrains": {"wave": cfg}}

    table = {
        "sub_terrains is empty.*env.scene.terrain=null": {"sub_terrains": {}},
        "sub_terrains is empty": {"sub_terrains": {"wave": None}},
        "sub_terrains.wave.proportion is -0.1": wave(-0.1),
        "All proportions .* are 0": wave(0.0),
        "sub_terrains.lava is a object, but must be one": {"sub_terrains": {"lava": object()}},
        "num_rows is 0": {"num_rows": 0},
        "horizontal_scale is 0.0": {"horizontal_scale": 0.0},
        "border_width is -1.0": {"border_width": -1.0},
        "border_width is nan": {"border_width": math.nan},
        "tiles of inf x 8.0 m": {"size": (math.inf, 8.0)},
        r"difficulty_range is \[0.5, 2.0\]": {"difficulty_range": (0.5, 2.0)},
        r"tiles of 2.05 x 3.0 m and a horizontal_scale of 0.1 m": {"size": (2.05, 3.0)},
    }
    assert_refused({words: lambda one=one: generate(small(**one)) for words, one in table.items()})
