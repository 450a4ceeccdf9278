"""Depth images: hand-computed distances, clipping, moving cameras, both backends."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs.depth_camera import DepthCamera, DepthCameraCfg, pixel_rays
from envlab.sim.simulation import Simulation, UndeclaredFieldError
from tests.envs.refusals import assert_refused
from tests.sim.models import ALL, NUM_ENVS, make, only
from tests.sim.test_rays import SCENE, poses

WALL = """
<mujoco>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="wall" type="box" pos="0 4.5 0" size="9 0.5 9"/>
    <body name="post" pos="0.5 2 0">
      <joint type="slide" axis="1 0 0"/>
      <geom type="box" size="0.25 0.5 0.5" group="2" mass="1"/>
    </body>
    <body name="eye" pos="0 0 0">
      <joint type="slide" axis="0 1 0"/>
      <geom size="0.2" group="3" mass="1"/>
      <camera name="mounted" xyaxes="1 0 0 0 0 1" fovy="90"/>
    </body>
    <camera name="fixed" xyaxes="1 0 0 0 0 1" fovy="90"/>
  </worldbody>
</mujoco>
"""
"""A wall at y = 4, before it at y = 1.5 a post, and an eye of 0.2 m around a camera."""

FRONT_M, POST_M = 4.0, 1.5
CAMERA_FIELDS = ("cam_xpos", "cam_xmat")


def camera(sim: Simulation, name: str = "fixed", **cfg) -> DepthCamera:
    seen = {"width": 4, "height": 2, "fovy": 2 * math.degrees(math.atan(0.5)), "geom_groups": [0]}
    cfg = seen | cfg
    return DepthCamera(DepthCameraCfg(camera=name, **cfg), sim)


def test_pixels_see_the_directions_of_their_centres():
    # With a half height of 1 at distance 1, two rows have their centres at 0.5.
    rays = pixel_rays(height=2, width=3, fovy=90.0).view(2, 3, 3)
    assert rays[0, 0].tolist() == pytest.approx([-1.0, 0.5, -1.0])
    assert rays[0, 1].tolist() == pytest.approx([0.0, 0.5, -1.0])
    assert rays[1, 2].tolist() == pytest.approx([1.0, -0.5, -1.0])


def test_depth_is_measured_along_the_axis():
    # Columns at -0.75, -0.25, 0.25, 0.75 per metre, of which the third meets the post, which is
    # 0.25 to 0.75 m to the right at 1.5 m.
    image = camera(make(WALL), geom_groups=[0, 2]).image()
    assert image.shape == (NUM_ENVS, 2, 4, 1)
    assert image.dtype == torch.float32
    row = [FRONT_M, FRONT_M, POST_M, FRONT_M]
    assert torch.allclose(image[..., 0], torch.tensor([row, row]).expand(NUM_ENVS, 2, 4))


def test_a_distance_to_the_camera_is_longer_towards_the_corners():
    sim = make(WALL)
    cfg = {"width": 3, "height": 3, "fovy": 90.0}
    for name in ("depth", "distance_to_image_plane"):
        depth = camera(sim, data_type=name, **cfg).image()[0, ..., 0]
        assert torch.allclose(depth, torch.full((3, 3), FRONT_M))
    distance = camera(sim, data_type="distance_to_camera", **cfg).image()[0, ..., 0]
    side, corner = math.hypot(1, 2 / 3), math.hypot(1, 2 / 3, 2 / 3)
    rows = [[corner, side, corner], [side, 1.0, side], [corner, side, corner]]
    assert torch.allclose(distance, FRONT_M * torch.tensor(rows))


def test_surfaces_out_of_range_are_not_seen():
    sim, near = make(WALL), {"clipping_range": (0.1, 3.0)}
    for cfg, expected in (
        (near, 0.0),
        (near | {"depth_clipping_behavior": "max"}, 3.0),
        ({"clipping_range": (0.1, 4.1)}, FRONT_M),
        ({"clipping_range": (2.1, 20.0)}, FRONT_M),
    ):
        image = camera(sim, **cfg).image()
        assert torch.allclose(image, torch.full_like(image, expected)), cfg


def test_a_camera_on_a_body_moves_with_it_and_looks_past_it():
    sim = make(WALL, data_fields=CAMERA_FIELDS)
    mounted = camera(sim, "mounted", geom_groups=[0, 3])
    assert torch.allclose(mounted.image(), torch.full((NUM_ENVS, 2, 4, 1), FRONT_M))
    sim.reset(only(1, 2), torch.tensor([[0.0, 0.5]]).repeat(NUM_ENVS, 1))
    seen = mounted.image().flatten(1)
    assert seen.amin(dim=1).tolist() == pytest.approx([4.0, 3.5, 3.5, 4.0])
    inside = camera(sim, "mounted", width=1, height=1, geom_groups=None, sees_own_body=True).image()
    assert inside.flatten().tolist() == pytest.approx([0.2] * NUM_ENVS)


def test_a_mask_restricts_the_work_and_not_the_images():
    sim = make(SCENE, data_fields=CAMERA_FIELDS)
    sim.reset(ALL, poses(0))
    for name in ("fixed", "down"):
        eye = camera(sim, name, width=8, height=6, fovy=None, geom_groups=None)
        whole, part = eye.image(), eye.image(only(1, 3))
        assert torch.equal(part[[1, 3]], whole[[1, 3]])
        assert torch.isfinite(part).all()
        assert not torch.equal(part, whole)


def test_a_camera_that_makes_no_image_is_refused():
    sim = make(WALL)
    table = {
        "'fixd', but the model has the cameras fixed, mounted. Did you mean": {"name": "fixd"},
        "0 x 4 pixels": {"height": 0},
        r"fovy is 180\.0": {"fovy": 180.0},
        r"clipping_range is \[5\.0, 1\.0\]": {"clipping_range": (5.0, 1.0)},
    }
    assert_refused({words: lambda cfg=cfg: camera(sim, **cfg) for words, cfg in table.items()})
    with pytest.raises(UndeclaredFieldError, match=r"cam_x\w+.*env\.sim\.data_fields"):
        camera(sim, "mounted").image()
