"""Generated ground in a model: its heights, its floor, and objects standing on it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import SceneCfg
from envlab.envs.scene import build_model
from envlab.envs.terrain import (
    MeshPlaneTerrainCfg,
    MeshRailsTerrainCfg,
    TerrainCfg,
    TerrainGeneratorCfg,
)
from envlab.envs.terrain.generator import GROUP, add_terrain, generate, surface
from envlab.sim.height_field import HeightField
from tests.envs.hopper import MODEL
from tests.envs.terrain.hills import terrain


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return build_model(SceneCfg(model=MODEL, terrain=terrain()))


def test_floor_becomes_the_ground_and_keeps_its_name(model):
    assert surface(model) == "floor"
    assert model.geom("floor").type == mujoco.mjtGeom.mjGEOM_HFIELD
    assert model.geom("floor").group == GROUP
    assert not (model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).any()


def test_heights_are_those_that_were_generated(model):
    ground = generate(terrain().terrain_generator)
    field = HeightField(model, "floor", torch.device("cpu"))
    x = torch.arange(241) * 0.1 - 12.0
    y = torch.arange(121) * 0.1 - 6.0
    heights = field.heights(*torch.meshgrid(x, y, indexing="ij")).double()
    assert heights.shape == ground.heights.shape
    assert torch.allclose(heights, torch.tensor(ground.heights), atol=2e-4)  # x, y: float32


def test_border_is_flat_ground_at_height_zero(model):
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    groups = np.zeros(6, dtype=np.uint8)
    groups[GROUP] = 1
    hit = np.zeros(1, dtype=np.int32)
    # 12 and 6 m of tiles from the centre, then 5 m of border.
    for x, y in ((16.9, 0.0), (-16.9, 0.0), (0.0, 10.9), (0.0, -10.9), (16.9, 10.9), (12.05, 0.0)):
        distance = mujoco.mj_ray(
            model, data, np.array([x, y, 3.0]), np.array([0.0, 0.0, -1.0]), groups, 1, -1, hit
        )
        assert distance == pytest.approx(3.0), (x, y)
    outside = np.array([17.1, 0.0, 3.0])
    assert mujoco.mj_ray(model, data, outside, np.array([0.0, 0.0, -1.0]), groups, 1, -1, hit) < 0


def test_a_world_without_floor_gets_ground_that_is_called_floor():
    spec = mujoco.MjSpec.from_string("<mujoco/>")
    flat = TerrainGeneratorCfg(
        num_rows=1, num_cols=1, border_width=0.0, sub_terrains={"flat": MeshPlaneTerrainCfg()}
    )
    add_terrain(spec, TerrainCfg(terrain_generator=flat))
    model = spec.compile()
    assert [model.geom(index).name for index in range(model.ngeom)] == ["floor"]
    field = HeightField(model, "floor", torch.device("cpu"))
    assert float(field.heights(torch.zeros(1), torch.zeros(1))) == 0.0


def test_boxes_of_the_ground_are_like_the_floor():
    rails = MeshRailsTerrainCfg(rail_thickness_range=(0.1, 0.1), rail_height_range=(0.2, 0.2))
    generator = TerrainGeneratorCfg(
        num_rows=2, num_cols=1, border_width=0.0, sub_terrains={"rails": rails}
    )
    spec = mujoco.MjSpec.from_string(
        '<mujoco><worldbody><geom name="lawn" type="plane" size="0 0 1" friction="0.3 0.02 0.01"/>'
        "</worldbody></mujoco>"
    )
    add_terrain(spec, TerrainCfg(terrain_generator=generator))
    model = spec.compile()
    assert [model.geom(index).name for index in range(1, 17)] == [
        f"lawn_box_{n}" for n in range(16)
    ]
    first, last = model.geom("lawn_box_0"), model.geom("lawn_box_15")
    # The near side of the inner rail of the tile whose middle is at x = -4 m.
    assert first.pos.tolist() == pytest.approx([-4.0, -0.55, 0.1])
    assert first.size.tolist() == pytest.approx([0.6, 0.05, 0.1])
    assert last.pos.tolist() == pytest.approx([4.0 + 2.65, 0.0, 0.1])
    assert first.friction.tolist() == [0.3, 0.02, 0.01]
    assert surface(model) == "lawn"
