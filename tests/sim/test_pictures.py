"""Pictures: depth against ``mj_ray``, colours against MuJoCo's own renderer and mujoco_warp's."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs.camera import CameraCfg, CameraOffsetCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.scene import SceneCfg, build_spec
from envlab.envs.terrain import TerrainCfg, TerrainGeneratorCfg, rough_terrains
from envlab.errors import ConfigurationError
from envlab.sim.cfg import LIGHT_FIELDS, POSE_FIELDS, Frames, PictureCfg
from envlab.sim.opengl import provide_opengl
from envlab.sim.simulation import Fields, SimulationCfg, create_simulation

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.sim.pictures import CpuPictures

HEIGHT, WIDTH, NUM_ENVS = 24, 36, 24
NEAR, FAR = 0.05, 3.0
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


def scene_of(xml: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(xml)


def add_camera(spec: mujoco.MjSpec, body: str, pos: tuple[float, float, float]) -> None:
    """Add the camera ``seen``, along x, whose pixels are not square and not around its axis."""
    lens = PinholeCameraPatternCfg(
        width=WIDTH,
        height=HEIGHT,
        focal_length=1.0,
        horizontal_aperture=2.0 * math.tan(math.radians(87.0 / 2)),
        vertical_aperture=1.2,
        horizontal_aperture_offset=0.1,
        vertical_aperture_offset=-0.1,
    )
    camera = CameraCfg(
        name="seen", body_name=body, offset=CameraOffsetCfg(pos=pos), pattern_cfg=lens
    )
    camera.add_to(spec)


def draw(model, datas, geoms, *, num_threads=1, **cfg) -> dict[str, torch.Tensor]:
    """Return pictures of the camera ``seen``, ``(num_envs, height, width, ...)``."""
    num = len(datas)
    cfg = {"height": HEIGHT, "width": WIDTH, "clipping_range": (NEAR, FAR)} | cfg
    size = (num, 1, cfg["height"], cfg["width"])
    drawn = {
        "depth": torch.zeros(size),
        "rgb": torch.zeros(*size, 3, dtype=torch.uint8),
        "segmentation": torch.zeros(size, dtype=torch.int32),
    }
    tensors = {
        name: torch.tensor(np.array([getattr(data, name) for data in datas]), dtype=torch.float32)
        for name in (*POSE_FIELDS, *LIGHT_FIELDS)
    }
    CpuPictures(
        PictureCfg(camera=model.camera("seen").id, geoms=geoms, **cfg),
        model,
        Fields("data", "", tensors),
        Fields("model", "", {}),
        Frames(**drawn),
        wanted=torch.ones(num, dtype=torch.bool),
        slot=torch.zeros(num, dtype=torch.int32),
        num_threads=num_threads,
    ).draw()
    return {name: values[:, 0] for name, values in drawn.items()}


def rays_of_mujoco(model, data, groups) -> torch.Tensor:
    """Return the distances by ``mj_ray``, starting from the near end of the range."""
    camera = model.camera("seen").id
    turn = data.cam_xmat[camera].reshape(3, 3)
    wide, high = model.cam_sensorsize[camera]
    focal_x, focal_y, centre_x, centre_y = model.cam_intrinsic[camera]
    x = ((np.arange(WIDTH) + 0.5) / WIDTH - 0.5) * wide + centre_x
    y = ((np.arange(HEIGHT) + 0.5) / HEIGHT - 0.5) * high + centre_y
    right, down = np.meshgrid(x / focal_x, y / focal_y)
    rays = np.dstack((right, -down, -np.ones_like(right))).reshape(-1, 3) @ turn.T
    wanted = np.isin(np.arange(6), groups).astype(np.uint8)
    geom = np.zeros(1, dtype=np.int32)
    origin = data.cam_xpos[camera]
    found = np.array(
        [
            mujoco.mj_ray(model, data, origin + NEAR * ray, ray, wanted, 1, -1, geom, None)
            for ray in rays
        ]
    )
    depth = np.where((found < 0.0) | (found + NEAR >= FAR), np.inf, found + NEAR)
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
    _, model = build_spec(scene, edit=lambda spec: add_camera(spec, "base", (0.27, 0.0, 0.03)))
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
        mujoco.mj_forward(model, data)
        datas.append(data)
    return model, datas


def shapes_scene() -> tuple[mujoco.MjModel, list[mujoco.MjData]]:
    spec = mujoco.MjSpec.from_string(SHAPES)
    add_camera(spec, "eye", (0.0, 0.0, 0.0))
    model = spec.compile()
    rng, datas = np.random.default_rng(1), []
    for _ in range(NUM_ENVS):
        data = mujoco.MjData(model)
        data.qpos[:3] = rng.uniform(-0.4, 0.4, 3)
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[7] = rng.uniform(-3.0, 3.0)
        mujoco.mj_forward(model, data)
        datas.append(data)
    return model, datas


def test_rough_ground_is_seen_as_rays_meet_it():
    model, datas = rough_scene()
    ground = [geom for geom in range(model.ngeom) if model.geom_group[geom] == 1]
    drawn = draw(model, datas, ground)
    images = drawn["depth"]
    expected = torch.stack([rays_of_mujoco(model, data, [1]) for data in datas])
    seen = images.isfinite()
    assert 0.3 < seen.float().mean() < 0.95
    assert images[seen].std() > 0.3
    # Measured: all pixels within 1e-4 m; one on an edge may see past it in one of them.
    assert share_that_differs(images, expected, 2e-4) < 1e-3
    assert torch.isin(drawn["segmentation"][seen], torch.tensor(ground)).all()
    assert (drawn["segmentation"][~seen] == -1).all()


def test_every_shape_is_seen_as_rays_meet_it():
    model, datas = shapes_scene()
    geoms = [geom for geom in range(model.ngeom) if model.geom_group[geom] == 0]
    images = draw(model, datas, geoms)["depth"]
    expected = torch.stack([rays_of_mujoco(model, data, [0]) for data in datas])
    assert share_that_differs(images, expected, 2e-4) < 2e-3
    for geom in geoms:  # each is in the pictures
        without = draw(model, datas, [other for other in geoms if other != geom])
        assert not torch.equal(without["depth"], images), geom


def test_threads_draw_the_same():
    model, datas = rough_scene()
    datas = [datas[i % NUM_ENVS] for i in range(70)]
    alone, together = (draw(model, datas, range(model.ngeom), num_threads=n) for n in (1, 2))
    for name, values in alone.items():
        assert torch.equal(values, together[name]), name


def picture_of_mujoco(model: mujoco.MjModel, data: mujoco.MjData, size: int) -> np.ndarray:
    """Return a picture by MuJoCo's renderer, without what is not drawn here."""
    provide_opengl()
    model.vis.quality.offsamples = 0
    with mujoco.Renderer(model, size, size) as renderer:
        renderer.update_scene(data, camera="seen")
        for name in ("SHADOW", "REFLECTION", "HAZE"):
            renderer.scene.flags[int(getattr(mujoco.mjtRndFlag, f"mjRND_{name}"))] = 0
        return renderer.render()


ROOM = """
<mujoco>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.3 0.5 0.7" rgb2="1 1 1" width="64" height="384"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.2 0.3 0.4" rgb2="0.8 0.8 0.7" width="64" height="64"/>
    <material name="floor" texture="tiles" texrepeat="2 2" texuniform="true"/>
    <material name="crate" texture="tiles" rgba="1 0.6 0.4 1" specular="0"/>
    <material name="shiny" rgba="0.2 0.6 0.3 1" specular="1" shininess="0.3"/>
    <material name="glowing" rgba="0.8 0.2 0.2 1" emission="0.5"/>
    <mesh name="tent" vertex="-0.2 -0.2 0 0.2 -0.2 0 0.2 0.2 0 -0.2 0.2 0 0 0 0.4"/>
  </asset>
  <worldbody>
    <light pos="1 -1 3" dir="-0.3 0.3 -1" directional="true" diffuse="0.5 0.5 0.4" ambient="0.1 0.1 0.1"/>
    <light pos="0.5 1 2" dir="0 -0.3 -1" cutoff="40" exponent="5" attenuation="1 0.1 0.05"/>
    <geom type="plane" size="0 0 1" material="floor"/>
    <geom type="box" size="0.2 0.15 0.25" pos="1.5 0.6 0.25" euler="0 0 30" material="crate"/>
    <geom type="sphere" size="0.25" pos="1.4 -0.5 0.3" material="shiny"/>
    <geom type="capsule" size="0.08 0.3" pos="1.8 0 0.4" rgba="0.9 0.8 0.2 1"/>
    <geom type="cylinder" size="0.15 0.2" pos="1.2 0.1 0.2" euler="30 0 0" material="glowing"/>
    <geom type="ellipsoid" size="0.1 0.25 0.15" pos="2 -0.9 0.5" rgba="0.3 0.4 0.9 1"/>
    <geom type="mesh" mesh="tent" pos="2 1 0.1" rgba="0.7 0.7 0.7 1"/>
    <camera name="seen" pos="0 0 1" xyaxes="0 -1 0 0.35 0 1" fovy="60"/>
  </worldbody>
</mujoco>
"""  # noqa: E501


def test_colours_are_those_of_mujocos_own_renderer():
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    size = 96
    drawn = draw(
        *(model, [data], range(model.ngeom)), height=size, width=size, clipping_range=(0.01, 50.0)
    )
    ours, theirs = drawn["rgb"][0].numpy().astype(int), picture_of_mujoco(model, data, size)
    apart = np.abs(ours - theirs)
    shown = drawn["segmentation"][0].numpy()
    for geom in range(-1, model.ngeom):
        assert (shown == geom).sum() > 30, geom
        # Measured: 0 to 5 of 255. MuJoCo's round shapes are polyhedra; pixels on edges, also those
        # of a texture, differ.
        assert np.median(apart[shown == geom]) <= 5, geom
    assert apart.mean() < 6.0


def test_mujoco_warp_draws_the_same_depths_shapes_and_colours():
    model = mujoco.MjModel.from_xml_string(ROOM)
    sim = SimulationCfg(dt=0.01, data_fields=(*POSE_FIELDS, *LIGHT_FIELDS))
    size, found = 48, {}
    for backend in ("mujoco", "mujoco_warp"):
        sim.backend = backend
        made = create_simulation(sim, model, 2, decimation=1, device=torch.device("cpu"))
        frames = {
            "depth": torch.zeros(2, 3, size, size),
            "rgb": torch.full((2, 3, size, size, 3), 7, dtype=torch.uint8),
            "segmentation": torch.zeros(2, 3, size, size, dtype=torch.int32),
        }
        wanted = torch.tensor([True, False])
        pictures = made.pictures(
            PictureCfg(
                camera=model.camera("seen").id,
                height=size,
                width=size,
                clipping_range=(0.01, 50.0),
                geoms=[0, 1, 2, 3, 5, 6],  # without the cylinder
            ),
            Frames(**frames),
            wanted=wanted,
            slot=torch.tensor([2, 1], dtype=torch.int32),
        )
        pictures.draw()
        wanted.fill_(False)
        before = frames["rgb"].clone()
        frames["rgb"][0, 0] = before[0, 0] = 7
        pictures.draw()  # no image is due, so none changes
        assert torch.equal(frames["rgb"], before)
        assert (frames["rgb"][1] == 7).all()
        assert (frames["rgb"][0, :2] == 7).all()
        found[backend] = {name: values[0, 2] for name, values in frames.items()}
    ours, theirs = found["mujoco"], found["mujoco_warp"]
    same = ours["segmentation"] == theirs["segmentation"]
    assert same.float().mean() > 0.99
    near = (ours["depth"] - theirs["depth"]).abs() < 2e-3 * ours["depth"]
    assert (near | ~ours["depth"].isfinite())[same].float().mean() > 0.995
    assert (ours["depth"].isfinite() == theirs["depth"].isfinite())[same].all()
    apart = (ours["rgb"].int() - theirs["rgb"].int()).abs()[same].float()
    # Its checks do not fade, and sides of boxes have theirs the other way round.
    assert apart[ours["segmentation"][same] > 1].mean() < 1.5


def test_a_geom_that_cannot_be_drawn_is_named():
    model, datas = rough_scene()
    model.geom_type[3] = mujoco.mjtGeom.mjGEOM_SDF
    with pytest.raises(ConfigurationError, match=r"cannot draw a geom of type sdf.*geom_groups"):
        draw(model, datas, [3])
