"""The content of depth images as Warp structs: a camera on a body, a height field, shapes.

The camera looks along z, with x to the right and y down. Depth is along z, and a pixel's ray has
length 1 along it.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class View:
    """A camera on a body, and its pixels: their centres at 1 m are ``x0 + column * dx``, ..."""

    body: int
    position: wp.vec3
    rotation: wp.mat33
    """From the camera's frame to the body's."""
    height: int
    width: int
    x0: float
    dx: float
    y0: float
    dy: float
    near: float
    far: float


@wp.struct
class Ground:
    """A height field; rows are along y, columns along x. Without rows, there is none."""

    heights: wp.array2d(dtype=float)
    x: float
    y: float
    """Position of its first corner."""
    dx: float
    dy: float
    """Sizes of a cell."""


@wp.struct
class Shapes:
    """Visible geoms, in the frames of their bodies."""

    kind: wp.array(dtype=int)
    body: wp.array(dtype=int)
    position: wp.array(dtype=wp.vec3)
    rotation: wp.array(dtype=wp.mat33)
    size: wp.array(dtype=wp.vec3)
    centre: wp.array(dtype=wp.vec3)
    """Centre of the bounding box."""
    half: wp.array(dtype=wp.vec3)


@wp.struct
class Pose:
    """Pose of a frame in another."""

    position: wp.vec3
    rotation: wp.mat33


@wp.func
def body_pose(xpos: wp.array2d(dtype=float), xquat: wp.array2d(dtype=float), body: int) -> Pose:
    """Return the pose of a body of one environment in the world."""
    pose = Pose()
    pose.position = wp.vec3(xpos[body, 0], xpos[body, 1], xpos[body, 2])
    # Warp's quaternions have their scalar last, MuJoCo's first.
    pose.rotation = wp.quat_to_matrix(
        wp.quat(xquat[body, 1], xquat[body, 2], xquat[body, 3], xquat[body, 0])
    )
    return pose


@wp.func
def camera_pose(view: View, xpos: wp.array2d(dtype=float), xquat: wp.array2d(dtype=float)) -> Pose:
    """Return the pose of the camera in the world."""
    body = body_pose(xpos, xquat, view.body)
    pose = Pose()
    pose.position = body.position + body.rotation * view.position
    pose.rotation = body.rotation * view.rotation
    return pose


@wp.func
def shape_pose(
    shapes: Shapes,
    k: int,
    eye: Pose,
    xpos: wp.array2d(dtype=float),
    xquat: wp.array2d(dtype=float),
) -> Pose:
    """Return the camera's pose in the frame of a shape."""
    body = body_pose(xpos, xquat, shapes.body[k])
    back = wp.transpose(body.rotation * shapes.rotation[k])
    middle = body.position + body.rotation * shapes.position[k]
    pose = Pose()
    pose.position = back * (eye.position - middle)
    pose.rotation = back * eye.rotation
    return pose
