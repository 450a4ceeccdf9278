"""Pictures: the places of cameras, and distances in their images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from envlab.errors import ConfigurationError
from envlab_isaacgym import gymapi, gymtorch
from tests.isaacgym.worlds import World, box, pose


@pytest.fixture(scope="module")
def world() -> World:
    """A box of 0.2 m at x = 2, which a camera at the origin looks at."""

    def fill(world: World, env: gymapi.Env) -> None:
        world.gym.create_actor(env, box(world), pose(2, 0, 1), "box", 0, 0, 7)

    return World(1, fill, gravity=0.0)


def camera(world: World) -> int:
    properties = gymapi.CameraProperties()
    properties.width, properties.height, properties.enable_tensors = 64, 48, True
    return world.gym.create_camera_sensor(world.envs[0], properties)


def picture(world: World, own: int, kind: gymapi.ImageType) -> np.ndarray:
    try:
        return world.gym.get_camera_image(world.sim, world.envs[0], own, kind)
    except ConfigurationError as error:
        pytest.skip(str(error))


def test_a_box_ahead_is_in_the_middle_and_as_far_as_it_is(world):
    own = camera(world)
    world.gym.set_camera_location(own, world.envs[0], gymapi.Vec3(0, 0, 1), gymapi.Vec3(5, 0, 1))
    depths = picture(world, own, gymapi.IMAGE_DEPTH)
    assert depths.shape == (48, 64)
    assert depths[24, 32] == pytest.approx(-1.9, abs=0.01)
    # 90 degrees are 64 pixels wide: 0.2 m at 1.9 m are 3.4 of them.
    assert 3 <= (depths[24] > -2.5).sum() <= 4
    colors = picture(world, own, gymapi.IMAGE_COLOR)
    assert (colors.shape, colors.dtype) == ((48, 256), np.uint8)
    assert colors.reshape(48, 64, 4)[24, 32, :3].any()
    assert depths[0, 0] == -np.inf  # there is nothing
    ids = picture(world, own, gymapi.IMAGE_SEGMENTATION)
    assert (ids[24, 32], ids[0, 0]) == (7, 0)
    world.gym.set_rigid_body_segmentation_id(world.envs[0], 0, 0, 9)
    assert picture(world, own, gymapi.IMAGE_SEGMENTATION)[24, 32] == 9
    with pytest.raises(NotImplementedError, match="IMAGE_OPTICAL_FLOW"):
        world.gym.get_camera_image(world.sim, world.envs[0], own, gymapi.IMAGE_OPTICAL_FLOW)


def test_pictures_as_tensors_are_drawn_anew_in_place(world):
    own, env, gym = camera(world), world.envs[0], world.gym
    gym.set_camera_location(own, env, gymapi.Vec3(0, 0, 1), gymapi.Vec3(5, 0, 1))
    picture(world, own, gymapi.IMAGE_COLOR)  # skips without OpenGL
    tensors = {
        kind: gymtorch.wrap_tensor(gym.get_camera_image_gpu_tensor(world.sim, env, own, kind))
        for kind in (gymapi.IMAGE_COLOR, gymapi.IMAGE_DEPTH, gymapi.IMAGE_SEGMENTATION)
    }
    found = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors.values()]
    assert found == [((48, 64, 4), torch.uint8), ((48, 64), torch.float32), ((48, 64), torch.int32)]
    depths = tensors[gymapi.IMAGE_DEPTH]
    assert depths[24, 32].item() == pytest.approx(-1.9, abs=0.01)
    gym.set_camera_location(own, env, gymapi.Vec3(1, 0, 1), gymapi.Vec3(5, 0, 1))
    gym.render_all_camera_sensors(world.sim)
    gym.start_access_image_tensors(world.sim)
    assert depths[24, 32].item() == pytest.approx(-0.9, abs=0.01)
    again = gym.get_camera_image_gpu_tensor(world.sim, env, own, gymapi.IMAGE_DEPTH)
    assert gymtorch.wrap_tensor(again).data_ptr() == depths.data_ptr()
    gym.end_access_image_tensors(world.sim)
    plain = gym.create_camera_sensor(env, gymapi.CameraProperties())
    with pytest.raises(ConfigurationError, match="Set enable_tensors"):
        gym.get_camera_image_gpu_tensor(world.sim, env, plain, gymapi.IMAGE_DEPTH)


def test_a_picture_of_all_environments_is_taken_where_the_window_would_look(tmp_path):
    """Two boxes, in environments that stand 4 m apart."""
    gym, params = gymapi.acquire_gym(), gymapi.SimParams()
    params.up_axis, params.gravity = gymapi.UP_AXIS_Z, gymapi.Vec3()
    sim = gym.create_sim(0, 0, gymapi.SIM_PHYSX, params)
    viewer, half = gym.create_viewer(sim, gymapi.CameraProperties()), gymapi.Vec3(2, 2, 0)
    envs = [gym.create_env(sim, -half, half, 2) for _ in range(2)]
    asset = gym.create_box(sim, 1, 1, 1, gymapi.AssetOptions())
    for env in envs:
        gym.create_actor(env, asset, pose(z=0.5), "box", 0, 0)
    gym.viewer_camera_look_at(viewer, envs[1], gymapi.Vec3(-2, -20, 0.5), gymapi.Vec3(-2, 0, 0.5))
    seen = gym.get_viewer_camera_transform(viewer, None)
    assert (seen.p.x, seen.p.y, seen.p.z) == pytest.approx((2.0, -20.0, 0.5))
    assert gym.get_viewer_camera_transform(viewer, envs[1]).p.x == pytest.approx(-2.0)
    ahead = seen.transform_vector(gymapi.Vec3(1, 0, 0))
    assert (ahead.x, ahead.y, ahead.z) == pytest.approx((0.0, 1.0, 0.0), abs=1e-6)
    size = gym.get_viewer_size(viewer)
    assert (size.x, size.y) == (1600, 900)
    path = tmp_path / "frame.png"
    try:
        gym.write_viewer_image_to_file(viewer, str(path))
    except ConfigurationError as error:
        pytest.skip(str(error))
    picture = imread(path)[450, :, :3].sum(axis=-1)
    is_box = picture != picture[800]  # between the boxes
    # 800 pixels to a side are as far as the distance. Of boxes at -2 and 2 m, outer edges are seen
    # of the near face, 19.5 m away: 2.5 m; inner ones of the far face, 20.5 m away: 1.5 m.
    edges = np.flatnonzero(np.diff(is_box.astype(int)))
    assert edges == pytest.approx([697, 741, 858, 902], abs=2)


def test_a_camera_follows_a_body_and_knows_its_matrices(world):
    own, env = camera(world), world.envs[0]
    above = gymapi.Transform(
        gymapi.Vec3(0, 0, 3), gymapi.Quat.from_euler_zyx(0.0, math.pi / 2, 0.0)
    )
    world.gym.attach_camera_to_body(own, env, 0, above, gymapi.FOLLOW_TRANSFORM)
    seen = world.gym.get_camera_transform(world.sim, env, own)
    assert (seen.p.x, seen.p.y, seen.p.z) == pytest.approx((2.0, 0.0, 4.0))
    view = world.gym.get_camera_view_matrix(world.sim, env, own)
    point = np.array([2.0, 0.5, 1.0, 1.0]) @ view  # three metres ahead, half a metre to the left
    assert point == pytest.approx([-0.5, 0.0, -3.0, 1.0], abs=1e-5)
    clipped = point @ world.gym.get_camera_proj_matrix(world.sim, env, own)
    assert clipped[0] / clipped[3] == pytest.approx(-0.5 / 3)
    assert picture(world, own, gymapi.IMAGE_DEPTH)[24, 32] == pytest.approx(-2.9, abs=0.01)
