"""Rays from a robot against distances that follow from geometry: a plane and a ball.

The robot's base is 1 m above a floor; a ball of 0.5 m radius slides along x, 3 m ahead.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.camera import CameraOffsetCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.ray_sensor import (
    RayCasterCameraCfg,
    RayCastSensor,
    RayCastSensorCfg,
    TerrainHeightSensorCfg,
)
from envlab.envs.terms import observation
from tests.envs import hopper
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, terms

SCENE = """
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <geom name="floor" type="plane" size="50 50 0.1"/>
    <body name="base" pos="0 0 1">
      <freejoint name="root"/>
      <geom name="hull" type="box" size="0.2 0.2 0.1" mass="1"/>
      <site name="mast" pos="0 0 0.5" euler="0 0 90"/>
      <body name="arm" pos="0 0.6 0"><joint name="arm"/><geom size="0.05" mass="0.1"/></body>
    </body>
    <body name="ball" pos="3 0 1">
      <joint name="slide" type="slide" axis="1 0 0"/><geom name="ball" size="0.5" group="2"/>
    </body>
  </worldbody>
  <actuator><motor joint="arm"/></actuator>
</mujoco>
"""
BALL, RADIUS = 3.0, 0.5
LIDAR = mdp.LidarPatternCfg(
    channels=3,
    vertical_fov_range=(-30.0, 30.0),
    horizontal_fov_range=(-10.0, 10.0),
    horizontal_res=5.0,
)
DOWN = mdp.RingPatternCfg(rings=[mdp.RingCfg(radius=0.5, num_samples=4)])


@pytest.fixture
def make(tmp_path):
    """Return a maker of environments."""
    path = tmp_path / "scene.xml"
    path.write_text(SCENE)

    def made(
        num_envs: int = 1,
        sim: dict[str, Any] | None = None,
        kind: Any = RayCastSensorCfg,
        **sensor: Any,
    ) -> ManagerEnv:
        scan = observation(mdp.ray_distances, sensor_cfg=SceneEntityCfg("rays"))
        return hopper.make_env(
            num_envs,
            sim={"data_fields": (), **(sim or {})},
            actions=terms(arm=mdp.JointEffortActionCfg(joint_names="arm")),
            sensors=terms(rays=kind(**sensor)),
            observations=terms(policy=group(scan=scan)),
            scene=SceneCfg(num_envs=num_envs, model=str(path)),
        )

    return made


def rays(env: ManagerEnv) -> RayCastSensor:
    return env.sensor_manager.get_term("rays")


def place(env: ManagerEnv, quat: list[float] = hopper.LEVEL, slide: float = 0.0) -> None:
    qpos = torch.tensor([[0.0, 0.0, 1.0, *quat, 0.0, slide]]).repeat(env.num_envs, 1)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos)


def to_ball(direction: torch.Tensor, at: float = BALL) -> torch.Tensor:
    """Return distances from (0, 0, 1) to a ball centred at (``at``, 0, 1)."""
    along = direction[:, 0] * at
    return along - (RADIUS**2 - at**2 + along**2).sqrt()


def test_a_lidar_measures_a_ball_the_floor_and_the_sky(make):
    env = make(
        body_names="base", pattern_cfg=LIDAR, max_distance=20.0, normals=True, geom_groups=[0, 2]
    )
    sensor, (_, directions) = rays(env), LIDAR.rays()
    assert torch.allclose(directions.norm(dim=1), torch.ones(15))
    below, ahead, above = sensor.distances[0].split(5)
    assert torch.allclose(below, torch.full((5,), 2.0), atol=1e-5)  # 1 m / sin 30°
    assert torch.allclose(ahead[1:4], to_ball(directions[6:9]), atol=1e-5)
    assert above.tolist() == [20.0] * 5
    assert sensor.is_hit[0].tolist() == [True] * 5 + [False, True, True, True, False] + [False] * 5
    assert sensor.ray_hits_w[0, 7].tolist() == pytest.approx([2.5, 0, 1], abs=1e-5)
    assert torch.isinf(sensor.ray_hits_w[0, 10:]).all()
    centre = torch.tensor([BALL, 0.0, 1.0])
    outwards = (sensor.ray_hits_w[0, 6:9] - centre) / RADIUS
    assert torch.allclose(sensor.normals_w[0, 6:9], outwards, atol=1e-4)
    assert torch.allclose(sensor.normals_w[0, :5], torch.tensor([0.0, 0, 1]).expand(5, 3))
    assert not sensor.normals_w[0, 10:].any()
    assert torch.equal(env.obs_buf["policy"], sensor.distances)


def test_a_full_circle_does_not_repeat_its_first_ray():
    whole = mdp.LidarPatternCfg(channels=1, vertical_fov_range=(0, 0), horizontal_res=90.0)
    _, directions = whole.rays()
    expected = [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]
    assert torch.allclose(directions, torch.tensor(expected).float(), atol=1e-6)


def test_the_ball_is_seen_where_it_has_moved_and_only_in_its_group(make):
    env = make(2, body_names="base", pattern_cfg=LIDAR)
    place(env, slide=1.0)
    assert rays(env).distances[:, 7].tolist() == pytest.approx([3.5, 3.5], abs=1e-5)
    env.sim.reset(torch.tensor([True, False]))
    assert rays(env).distances[:, 7].tolist() == pytest.approx([2.5, 3.5], abs=1e-5)
    blind = make(body_names="base", pattern_cfg=LIDAR, geom_groups=[0])
    assert rays(blind).is_hit[0].tolist() == [True] * 5 + [False] * 10


ROLL = [math.cos(math.pi / 12), math.sin(math.pi / 12), 0.0, 0.0]  # 30° about x
PITCHED = [math.cos(math.pi / 12), 0.0, math.sin(math.pi / 12), 0.0]  # 30° about y


def test_a_ring_turns_as_it_is_told(make):
    """Rolled by 30°, points at y = 0.5 m rise by 0.25 m, and rays are longer by 1 / cos 30°."""
    slope = 1.0 / math.cos(math.pi / 6)
    heights = torch.tensor([1.0, 1.0, 1.25, 1.0, 0.75])
    table = {"base": heights * slope, "yaw": torch.ones(5), "world": torch.ones(5)}
    for alignment, expected in table.items():
        env = make(body_names="base", pattern_cfg=DOWN, ray_alignment=alignment)
        place(env, quat=ROLL)
        assert torch.allclose(rays(env).distances[0], expected, atol=1e-5), alignment
        place(env, quat=hopper.LEFT)
        first = rays(env).ray_hits_w[0, 1].tolist()
        at = [0.5, 0.0, 0.0] if alignment == "world" else [0.0, 0.5, 0.0]
        assert first == pytest.approx(at, abs=1e-5), alignment


def test_an_offset_is_a_pose_in_the_aligned_frame(make):
    """A grid 0.3 m ahead and 0.2 m up, turned by 90° about y, looks backwards along x."""
    about_y = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
    row = mdp.GridPatternCfg(resolution=0.5, size=(1.0, 0.0))
    env = make(
        body_names="base",
        pattern_cfg=row,
        offset=mdp.OffsetCfg(pos=(0.3, 0.0, 0.2), rot=about_y),
        ray_alignment="yaw",
    )
    assert not rays(env).is_hit[0].any()
    place(env, quat=[0.0, 0.0, 0.0, 1.0])  # turned back, it sees the ball
    point = [BALL - math.sqrt(RADIUS**2 - 0.2**2), 0.0, 1.2]
    assert rays(env).ray_hits_w[0, 1].tolist() == pytest.approx(point, abs=1e-5)


def test_several_bodies_and_sites_carry_the_pattern_and_pass_through_their_own_body(make):
    one = mdp.RingPatternCfg(rings=[])
    frames = {"body_names": "base|arm", "site_names": "mast", "pattern_cfg": one}
    sensor = rays(make(**frames))
    assert sensor.frame_names == ["base", "arm", "mast"]
    assert sensor.distances[0].tolist() == pytest.approx([1.0, 1.0, 1.5], abs=1e-5)
    assert sensor.pos_w[0, 2].tolist() == pytest.approx([0, 0, 1.5], abs=1e-6)
    assert sensor.quat_w[0, 2].tolist() == pytest.approx(hopper.LEFT, abs=1e-6)
    stopped = rays(make(**frames, exclude_own_body=False))
    assert stopped.distances[0].tolist() == pytest.approx([0.1, 0.05, 0.4], abs=1e-5)


def test_a_pinhole_camera_looks_ahead_row_by_row_from_the_top_left(make):
    """Two by three pixels, each of 0.5 m at 1 m, see the floor in the lower row."""
    lens = PinholeCameraPatternCfg(width=3, height=2, focal_length=1.0, horizontal_aperture=1.5)
    env = make(body_names="base", pattern_cfg=lens, geom_groups=[0])
    sensor = rays(env)
    assert sensor.is_hit[0].tolist() == [False] * 3 + [True] * 3
    points = [[4.0, 2.0, 0.0], [4.0, 0.0, 0.0], [4.0, -2.0, 0.0]]
    assert torch.allclose(sensor.ray_hits_w[0, 3:], torch.tensor(points), atol=1e-4)


def test_a_height_scan_is_of_each_frame_above_what_its_rays_hit(make):
    env = make(body_names="base", site_names="mast", pattern_cfg=DOWN, geom_groups=[0])
    scan = mdp.height_scan(env, rays(env), offset=0.25)
    assert scan[0].tolist() == pytest.approx([0.75] * 5 + [1.25] * 5, abs=1e-5)
    place(env, quat=[0.0, 1.0, 0.0, 0.0])  # on its back, it sees the sky
    assert mdp.height_scan(env, rays(env))[0, :5].tolist() == [-math.inf] * 5


def test_heights_above_the_terrain_are_reduced_by_frame(make):
    """A frame 1 m up, one of whose five rays begins in the ball, and so measures 0."""
    settings = {"kind": TerrainHeightSensorCfg, "pattern_cfg": DOWN, "ray_alignment": "yaw"}
    table = {"min": 0.0, "max": 1.0, "mean": 0.8, "none": [1.0, 0.0, 1.0, 1.0, 1.0]}
    for reduction, expected in table.items():
        env = make(body_names="base", reduction=reduction, **settings)
        place(env, slide=0.7 - BALL)  # the ball is from 0.2 to 1.2 m ahead, the ray at 0.5 m
        assert rays(env).heights[0, 0].tolist() == pytest.approx(expected, abs=1e-5), reduction
    high = make(body_names="base", max_distance=0.9, geom_groups=[0], **settings)
    assert rays(high).heights.tolist() == [[pytest.approx(0.9)]]  # 1 m, at most the greatest


def test_a_camera_of_rays_measures_planes_distances_and_normals(make):
    """Two by three pixels, each of 0.5 m at 1 m, see the floor 1 m below in the lower row."""
    lens = PinholeCameraPatternCfg(width=3, height=2, focal_length=1.0, horizontal_aperture=1.5)
    settings = {"body_names": "base", "pattern_cfg": lens, "geom_groups": [0], "max_distance": 4.1}
    types = ["distance_to_image_plane", "distance_to_camera", "normals"]
    camera = {"kind": RayCasterCameraCfg, "data_types": types, **settings}
    ahead = CameraOffsetCfg(convention="world")
    table = {"max": (4.1, 4.1), "zero": (0.0, 0.0), "none": (math.inf, math.nan)}
    for behavior, (sky, beyond) in table.items():
        env = make(depth_clipping_behavior=behavior, offset=ahead, **camera)
        plane = mdp.image(env, rays(env), normalize=False)
        assert plane.shape == (1, 2, 3, 1)
        assert plane[0, :, :, 0].tolist() == [
            pytest.approx(row) for row in ([sky] * 3, [4.0] * 3)
        ], behavior
        along = rays(env).image("distance_to_camera")[0, 1, :, 0]
        straight = 17.0**0.5 if behavior == "none" else beyond  # 4.12 m
        side = 21.0**0.5 if behavior == "none" else beyond
        assert along.tolist() == pytest.approx([side, straight, side]), behavior
    shown = mdp.image(env, rays(env), "normals")
    assert shown[0, 0].tolist() == [[0.5] * 3] * 3
    assert torch.allclose(shown[0, 1], torch.tensor([0.5, 0.5, 1.0]), atol=1e-6)
    down = make(**camera, offset=CameraOffsetCfg(rot=(0.0, 1.0, 0.0, 0.0), convention="ros"))
    place(down)
    assert rays(down).image()[0, :, :, 0].tolist() == [pytest.approx([1.0] * 3)] * 2
    assert_refused(
        {
            "is on base, mast, with .* Name one": lambda: make(**camera | {"site_names": "mast"}),
            "makes normals, but an image of it is to be 'distance_to_camera'": lambda: rays(
                make(**camera | {"data_types": ["normals"]})
            ).image("distance_to_camera"),
        }
    )


@pytest.mark.parametrize("alignment", ["base", "yaw"])
def test_warp_measures_the_same(make, alignment):
    pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    settings = {
        **{"body_names": "base|arm", "site_names": "mast", "pattern_cfg": LIDAR},
        **{"normals": True, "ray_alignment": alignment},
    }
    here, there = make(2, **settings), make(2, sim={"backend": "mujoco_warp"}, **settings)
    for env in (here, there):
        place(env, quat=PITCHED)
    for name in ("distances", "normals_w", "pos_w", "quat_w"):
        left, right = getattr(rays(here), name), getattr(rays(there), name)
        assert torch.allclose(left, right, atol=1e-4), name


def test_frames_and_patterns_that_do_not_exist_are_refused(make):
    def at(**settings: Any) -> Any:
        return lambda: make(**({"body_names": "base"} | settings))

    assert_refused(
        {
            "has no frame": at(body_names=""),
            "names the body 'bas', but .*Did you mean base": at(body_names="bas"),
            "names the site 'mats', but .*Did you mean mast": at(site_names="mats"),
            "ring pattern has no rings": at(
                pattern_cfg=mdp.RingPatternCfg(rings=[], include_center=False)
            ),
            "smaller first": at(pattern_cfg=mdp.LidarPatternCfg(horizontal_fov_range=(90, 0))),
            "finite direction other": at(pattern_cfg=mdp.GridPatternCfg(direction=(0, 0, 0))),
            "ray_alignment is 'body', but must": at(ray_alignment="body"),
            "asks a ray sensor for normals": lambda: rays(make(body_names="base")).normals_w,
        }
    )
