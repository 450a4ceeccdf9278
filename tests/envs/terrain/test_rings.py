"""Rails, pits, boxes, gaps and stairs: heights and boxes against their definitions in metres."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs.terrain import (
    BoxNestedRingsTerrainCfg,
    BoxOpenStairsTerrainCfg,
    BoxRandomStairsTerrainCfg,
    MeshBoxTerrainCfg,
    MeshFloatingRingTerrainCfg,
    MeshGapTerrainCfg,
    MeshPitTerrainCfg,
    MeshRailsTerrainCfg,
    SubTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab.envs.terrain.generator import GROUP, add_terrain
from envlab.envs.terrain.tile import Tile
from tests.envs.refusals import assert_refused
from tests.envs.terrain.hills import make_env

TILE = Tile((8.0, 8.0), 0.1, 0.005)
MIDDLE = 40  # the vertex at 4 m


def build(cfg: SubTerrainCfg, difficulty: float = 1.0, seed: int = 0) -> tuple[np.ndarray, float]:
    heights, top = cfg.build(TILE, difficulty, np.random.default_rng(seed))
    assert heights.shape == (81, 81)
    for edge in (heights[0], heights[-1], heights[:, 0], heights[:, -1]):
        assert not edge.any()
    return heights, top


def check(heights: np.ndarray, *expected: tuple[float, float]) -> None:
    """Compare heights at distances from the middle, to all four sides."""
    for distance, height in expected:
        near, far = round(10 * (4.0 - distance)), round(10 * (4.0 + distance))
        found = [heights[near, MIDDLE], heights[far, MIDDLE], heights[MIDDLE, near]]
        assert found == pytest.approx([height] * 3), distance
        assert heights[MIDDLE, far] == pytest.approx(height), distance


def uppermost(
    cfg: SubTerrainCfg, difficulty: float, *distances: float, down: bool = True
) -> list[float]:
    """Return where vertical rays meet the ground, at distances from the middle along x."""
    kinds = {"kind": cfg}
    generator = TerrainGeneratorCfg(
        num_rows=1,
        num_cols=1,
        border_width=0.0,
        difficulty_range=(difficulty, difficulty),
        sub_terrains=kinds,
    )
    spec = mujoco.MjSpec.from_string("<mujoco/>")
    add_terrain(spec, TerrainCfg(terrain_generator=generator))
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    groups = np.eye(6, dtype=np.uint8)[GROUP]
    found = []
    for distance in distances:
        start = np.array([distance, 0.013, 5.0 if down else 0.01])
        way = np.array([0.0, 0.0, -1.0 if down else 1.0])
        length = mujoco.mj_ray(model, data, start, way, groups, 1, -1, np.zeros(1, np.int32))
        found.append(float(start[2] + way[2] * length) if length >= 0.0 else np.inf)
    return found


RAILS = MeshRailsTerrainCfg(rail_thickness_range=(0.05, 0.2), rail_height_range=(0.1, 0.3))
RING = MeshFloatingRingTerrainCfg(
    ring_width_range=(0.4, 0.8),
    ring_height_range=(0.3, 1.1),
    ring_thickness=0.1,
    platform_width=2.0,
)


def test_rails_have_upright_walls_and_their_thickness():
    heights, top = build(RAILS)
    assert top == 0.0
    assert not heights.any()
    # The inner rail from 0.5 to 0.55 m; the outer from 0.5 * (1 + 0.6 * 7) = 2.6 to 2.8 m.
    places = (0.49, 0.51, 0.54, 0.56, 2.59, 2.61, 2.79, 2.81)
    expected = [0.0, 0.2, 0.2, 0.0, 0.0, 0.2, 0.2, 0.0]
    assert uppermost(RAILS, 0.5, *places) == pytest.approx(expected, abs=1e-6)
    assert len(RAILS.boxes(TILE, 1.0)) == 8


def test_a_ring_floats_at_its_height_and_lower_where_it_is_hard():
    # At difficulty 0.25 its lower side is at 1.1 - 0.25 * 0.8 = 0.9 m, from 1 to 1.5 m.
    assert not build(RING)[0].any()
    places = (0.99, 1.01, 1.49, 1.51)
    above = uppermost(RING, 0.25, *places)
    assert above == pytest.approx([0.0, 1.0, 1.0, 0.0], abs=1e-6)
    below = uppermost(RING, 0.25, *places, down=False)
    assert below == pytest.approx([np.inf, 0.9, 0.9, np.inf])
    assert uppermost(RING, 1.0, 1.79, down=False) == pytest.approx([0.3])


def test_lookups_see_what_is_above_the_ground():
    kinds = {"ring": RING, "rails": RAILS}
    generator = TerrainGeneratorCfg(
        num_rows=1, num_cols=2, curriculum=True, difficulty_range=(1.0, 1.0), sub_terrains=kinds
    )
    env = make_env(4, ground=TerrainCfg(terrain_generator=generator))
    x = torch.tensor([0.0, 1.0, 1.5, 1.8, 2.0])
    ring = env.terrain.heights_at(x, torch.full_like(x, -4.0))
    assert ring.tolist() == pytest.approx([0.0, 0.4, 0.4, 0.4, 0.0], abs=1e-6)
    rails = env.terrain.heights_at(torch.tensor([0.5, 2.7, 3.0]), torch.full((3,), 4.0))
    assert rails.tolist() == pytest.approx([0.3, 0.3, 0.0], abs=1e-6)


def test_pits_lead_down_by_one_or_two_steps_and_boxes_up():
    sizes = {"platform_width": 2.0}
    pit = MeshPitTerrainCfg(pit_depth_range=(0.1, 0.5), **sizes)
    heights, top = build(pit, 0.5)
    assert top == pytest.approx(-0.3)
    check(heights, (0.0, -0.3), (1.0, -0.3), (1.1, 0.0), (3.0, 0.0))
    # The second begins at 0.5 * (2 + 0.6 * 6) = 2.8 m.
    pit.double_pit = True
    heights, top = build(pit, 0.5)
    assert top == pytest.approx(-0.6)
    check(heights, (1.0, -0.6), (1.1, -0.3), (2.8, -0.3), (2.9, 0.0))
    box = MeshBoxTerrainCfg(box_height_range=(0.1, 0.5), double_box=True, **sizes)
    raised, high = build(box, 0.5)
    assert np.array_equal(raised, -heights)
    assert high == pytest.approx(0.6)
    box.double_box = False
    check(build(box, 0.5)[0], (1.0, 0.3), (1.1, 0.0))


def test_gaps_begin_at_the_platform_and_have_their_width():
    gap = MeshGapTerrainCfg(gap_width_range=(0.1, 0.7), platform_width=2.0, gap_depth=0.8)
    heights, top = build(gap, 0.5)
    assert top == 0.0
    check(heights, (1.0, 0.0), (1.1, -0.8), (1.3, -0.8), (1.4, 0.0), (2.0, 0.0))
    narrow, _ = build(gap, 0.0)  # between two vertices: one line, nearest to 1.05 m
    assert (narrow[:, MIDDLE] == -0.8).sum() in (2, 4)
    assert not build(MeshGapTerrainCfg(gap_width_range=(0.0, 0.7)), 0.0)[0].any()


def test_rings_narrow_and_gaps_widen():
    rings = BoxNestedRingsTerrainCfg(
        ring_width_range=(0.3, 0.7), gap_range=(0.2, 0.4), border_width=0.4, num_rings=2
    )
    heights, top = build(rings, 0.5)  # rings of 0.5 m, gaps of 0.3 m
    assert top == pytest.approx(0.25)
    # From the edge: border to 0.4 m, ring to 0.9, gap to 1.2, ring to 1.7, gap to 2.0, platform.
    expected = {0.1: 0.25, 0.9: 0.25, 1.0: -2.0, 1.1: -2.0, 1.2: 0.25, 1.7: 0.25, 1.8: -2.0}
    expected |= {1.9: -2.0, 2.0: 0.25, 2.5: 0.25}
    check(heights, *((4.0 - edge, height) for edge, height in expected.items()), (0.0, 0.25))


def test_random_stairs_have_steps_of_different_heights():
    stairs = BoxRandomStairsTerrainCfg(step_width=0.5, border_width=0.5, platform_width=2.0)
    heights, top = build(stairs)
    # (8 - 1 - 2) / 1 = 5 steps, from 0.5 m on.
    levels = [float(heights[round(10 * edge), MIDDLE]) for edge in (0.4, 0.5, 1.0, 1.5, 2.0, 2.5)]
    assert levels[0] == 0.0
    steps = np.diff(levels)
    assert ((steps >= 0.1) & (steps <= 0.3)).all()
    assert np.unique(steps.round(6)).size == 5
    assert heights[MIDDLE, MIDDLE] == top == pytest.approx(levels[-1])
    easy, _ = build(stairs, 0.0)
    assert np.allclose(easy, 0.5 * heights)
    assert np.array_equal(build(stairs)[0], heights)
    assert not np.array_equal(build(stairs, seed=1)[0], heights)


def test_open_stairs_have_air_below_their_steps():
    sizes = {"step_height_range": (0.2, 0.2), "step_width_range": (0.5, 0.5), "border_width": 0.5}
    up = BoxOpenStairsTerrainCfg(inverted=False, platform_width=5.0, **sizes)
    heights, top = build(up)
    assert not heights.any()
    # (8 - 1 - 5) / 1 = 2 steps: from 3.5 to 3, to 2.5 m, then the platform.
    assert top == pytest.approx(0.6)
    places = (3.51, 3.49, 3.01, 2.99, 2.49, 0.0)
    assert uppermost(up, 1.0, *places) == pytest.approx([0.0, 0.2, 0.2, 0.4, 0.6, 0.6], abs=1e-6)
    below = uppermost(up, 1.0, *places, down=False)
    assert below == pytest.approx([np.inf, 0.15, 0.15, 0.35, 0.55, 0.55])
    down = BoxOpenStairsTerrainCfg(platform_width=5.0, **sizes)
    heights, top = build(down)
    assert top == pytest.approx(-0.4)
    check(heights, (3.6, 0.0), (3.5, -0.45), (0.0, -0.45))
    found = uppermost(down, 1.0, *places[1:])
    assert found == pytest.approx([0.0, 0.0, -0.2, -0.4, -0.4], abs=1e-6)


def test_rings_that_do_not_fit_are_refused_in_one_sentence():
    table = {
        "rails of 0.1 and 2.0 m around a platform of 1.0 m need 9.2 m": MeshRailsTerrainCfg(
            rail_thickness_range=(0.1, 2.0), rail_height_range=(0.1, 0.1)
        ),
        "rails of 3.0 and 0.1 m around a platform of 1.0 m overlap": MeshRailsTerrainCfg(
            rail_thickness_range=(3.0, 0.1), rail_height_range=(0.1, 0.1)
        ),
        "platforms of 8.0 m need 8 m, but tiles of 8.0 x 8.0 m have 7.8 m": MeshPitTerrainCfg(
            pit_depth_range=(0.1, 0.1), platform_width=8.0
        ),
        "platforms of 8.5 m": MeshBoxTerrainCfg(box_height_range=(0.1, 0.1), platform_width=8.5),
        "gaps of 4 m need 9 m": MeshGapTerrainCfg(gap_width_range=(1.0, 4.0)),
        "a ring of 4 m": MeshFloatingRingTerrainCfg(
            ring_width_range=(1.0, 4.0), ring_height_range=(0.1, 0.1), ring_thickness=0.1
        ),
        "borders of 4.0 m": BoxNestedRingsTerrainCfg(border_width=4.0),
        "a step has a width of 0.0 m": BoxOpenStairsTerrainCfg(step_width_range=(0.0, 0.0)),
        "a platform of 1.0 m and borders of 3.8 m": BoxRandomStairsTerrainCfg(border_width=3.8),
    }
    assert_refused({words: lambda cfg=cfg: build(cfg) for words, cfg in table.items()})


def test_settings_out_of_their_range_are_refused_when_an_environment_is_made():
    kinds = {"gap": MeshGapTerrainCfg(gap_width_range=(-0.1, 0.7))}
    generator = TerrainGeneratorCfg(num_rows=1, num_cols=1, sub_terrains=kinds)
    words = r"sub_terrains\.gap\.gap_width_range"
    assert_refused({words: lambda: make_env(2, ground=TerrainCfg(terrain_generator=generator))})
