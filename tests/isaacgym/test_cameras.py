"""Pictures: where they are taken from, and how far what they show is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envlab.errors import ConfigurationError
from envlab.isaacgym import gymapi
from tests.isaacgym.worlds import World, box, pose


@pytest.fixture(scope="module")
def world() -> World:
    """A box of 0.2 m at x = 2, which a camera at the origin looks at."""

    def fill(world: World, env: gymapi.Env) -> None:
        world.gym.create_actor(env, box(world), pose(2, 0, 1), "box", 0, 0)

    return World(1, fill, gravity=0.0)


def camera(world: World) -> int:
    properties = gymapi.CameraProperties()
    properties.width, properties.height = 64, 48
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
    with pytest.raises(NotImplementedError, match="IMAGE_SEGMENTATION"):
        world.gym.get_camera_image(world.sim, world.envs[0], own, gymapi.IMAGE_SEGMENTATION)


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
