"""Depth images on rough ground and of every shape, against ``mj_ray``, by both kernels."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs.scene import SceneCfg, build_model
from envlab.envs.terrain import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab.errors import ConfigurationError

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.sim.depth_images import DepthImages, Pinhole

HEIGHT, WIDTH, NUM_ENVS = 24, 36, 24
FAR = 3.0
AHEAD = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""From a camera that looks along x."""
SHAPES = """
<mujoco>
  <worldbody>
    <geom type="plane" size="4 4 0.1" pos="0 0 -1"/>
    <geom type="box" size="0.3 0.2 0.4" pos="1.2 0.5 0" euler="20 30 10"/>
    <geom type="sphere" size="0.25" pos="1.3 -0.5 0.3"/>
    <geom type="ellipsoid" size="0.3 0.1 0.2" pos="-1 0.3 0.2" euler="0 40 0"/>
    <geom type="cylinder" size="0.2 0.3" pos="-0.9 -0.6 0" euler="60 0 20"/>
    <body name="eye"><freejoint/><geom type="sphere" size="0.01" mass="1" group="3"/></body>
    <body name="rod" pos="0 0.9 0" euler="30 0 0">
      <joint axis="0 0 1"/><geom type="capsule" size="0.12 0.4"/>
    </body>
  </worldbody>
</mujoco>
"""


def pinhole(model: mujoco.MjModel, body: str, **changes) -> Pinhole:
    focal = 0.5 * WIDTH / math.tan(math.radians(87.0 / 2))
    values = {
        "body": model.body(body).id,
        "position": np.array([0.27, 0.0, 0.03]),
        "rotation": AHEAD,
        "height": HEIGHT,
        "width": WIDTH,
        # Pixels that are not square, and an axis that is not in the middle.
        "intrinsics": np.array(
            [[focal, 0, 0.45 * WIDTH], [0, 1.1 * focal, 0.55 * HEIGHT], [0, 0, 1]]
        ),
        "clipping_range": (0.05, FAR),
    }
    return Pinhole(**(values | changes))


def draw(camera, model, datas, geoms, *, by_rays=False, num_threads=1) -> torch.Tensor:
    """Return images, ``(num_envs, height, width)``."""
    num = len(datas)
    frames = torch.zeros(num, 1, camera.height, camera.width)
    DepthImages(
        camera,
        model,
        geoms,
        xpos=torch.tensor(np.array([data.xpos for data in datas]), dtype=torch.float32),
        xquat=torch.tensor(np.array([data.xquat for data in datas]), dtype=torch.float32),
        wanted=torch.ones(num, dtype=torch.bool),
        slot=torch.zeros(num, dtype=torch.int32),
        frames=frames,
        num_threads=num_threads,
        by_rays=by_rays,
    ).draw()
    return frames[:, 0]


def rays_of_mujoco(camera, model, data, groups) -> torch.Tensor:
    """Return the distances by ``mj_ray``, starting from the near end of the range."""
    turn = data.xmat[camera.body].reshape(3, 3)
    origin = data.xpos[camera.body] + turn @ camera.position
    ends = np.dstack((camera.rays(), np.ones((HEIGHT, WIDTH)))).reshape(-1, 3)
    directions = ends @ (turn @ camera.rotation).T
    near, far = camera.clipping_range
    wanted = np.isin(np.arange(6), groups).astype(np.uint8)
    geom = np.zeros(1, dtype=np.int32)
    found = np.array(
        [
            mujoco.mj_ray(model, data, origin + near * ray, ray, wanted, 1, -1, geom, None)
            for ray in directions
        ]
    )
    depth = np.where((found < 0.0) | (found + near >= far), np.inf, found + near)
    return torch.tensor(depth.reshape(HEIGHT, WIDTH), dtype=torch.float32)


def share_that_differs(images: torch.Tensor, expected: torch.Tensor, room: float) -> float:
    alike = (images == expected) | ((images - expected).abs() <= room)
    return float((~alike).float().mean())


def rough_scene() -> tuple[mujoco.MjModel, list[mujoco.MjData]]:
    generator = TerrainGeneratorCfg(
        **(vars(rough_terrains()) | {"num_rows": 3, "num_cols": 6, "curriculum": True})
    )
    scene = SceneCfg(
        model="envlab_assets:robots/go2.xml", terrain=TerrainCfg(terrain_generator=generator)
    )
    model = build_model(scene)
    rng, datas = np.random.default_rng(0), []
    for _ in range(NUM_ENVS):
        data = mujoco.MjData(model)
        data.qpos[:3] = rng.uniform([-13.0, -25.0, 1.0], [13.0, 25.0, 1.6])
        data.qpos[3:7] = rng.normal(size=4) * [1.0, 0.2, 0.2, 1.0]
        mujoco.mj_kinematics(model, data)
        # To 0.35 m above the ground.
        start, hit = data.qpos[:3] + np.array([0.0, 0.0, 5.0]), np.zeros(1, dtype=np.int32)
        ground = np.eye(6, dtype=np.uint8)[1]
        below = mujoco.mj_ray(model, data, start, [0.0, 0.0, -1.0], ground, 1, -1, hit, None)
        data.qpos[2] += 5.0 - below + 0.35
        mujoco.mj_kinematics(model, data)
        datas.append(data)
    return model, datas


def test_rough_ground_is_seen_as_rays_meet_it():
    model, datas = rough_scene()
    camera = pinhole(model, "base")
    ground = [geom for geom in range(model.ngeom) if model.geom_group[geom] == 1]
    images = draw(camera, model, datas, ground)
    expected = torch.stack([rays_of_mujoco(camera, model, data, [1]) for data in datas])
    seen = images.isfinite()
    assert 0.3 < seen.float().mean() < 0.95
    assert images[seen].std() > 0.3
    # Measured: all pixels within 1e-4 m; one on an edge may see past it in one of them.
    assert share_that_differs(images, expected, 2e-4) < 1e-3
    assert share_that_differs(draw(camera, model, datas, ground, by_rays=True), images, 2e-4) < 1e-3


def test_every_shape_is_seen_as_rays_meet_it():
    model = mujoco.MjModel.from_xml_string(SHAPES)
    rng, datas = np.random.default_rng(1), []
    for _ in range(NUM_ENVS):
        data = mujoco.MjData(model)
        data.qpos[:3] = rng.uniform(-0.4, 0.4, 3)
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[7] = rng.uniform(-3.0, 3.0)
        mujoco.mj_kinematics(model, data)
        datas.append(data)
    camera = pinhole(model, "eye", position=np.zeros(3))
    geoms = [geom for geom in range(model.ngeom) if model.geom_group[geom] == 0]
    images = draw(camera, model, datas, geoms)
    expected = torch.stack([rays_of_mujoco(camera, model, data, [0]) for data in datas])
    assert share_that_differs(images, expected, 2e-4) < 2e-3
    assert share_that_differs(draw(camera, model, datas, geoms, by_rays=True), images, 2e-4) < 2e-3
    for geom in geoms:  # each is in the pictures
        without = draw(camera, model, datas, [other for other in geoms if other != geom])
        assert not torch.equal(without, images), geom


def test_threads_draw_the_same():
    model, datas = rough_scene()
    datas = [datas[i % NUM_ENVS] for i in range(70)]
    camera = pinhole(model, "base")
    alone, together = (
        draw(camera, model, datas, list(range(5)), num_threads=num) for num in (1, 2)
    )
    assert torch.equal(alone, together)


def test_a_geom_that_cannot_be_drawn_is_named():
    mesh = (
        '<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>'
        '<geom type="mesh" mesh="m"/><body name="b"><freejoint/><geom size="1"/></body>'
        "</worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(mesh)
    data = mujoco.MjData(model)
    with pytest.raises(ConfigurationError, match=r"cannot draw a geom of type mesh.*geom_groups"):
        draw(pinhole(model, "b"), model, [data], [0])
