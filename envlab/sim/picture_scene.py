"""The content of pictures as Warp structs: cameras, a height field, shapes, colours and lights.

The camera looks along z, with x to the right and y down. Depth is along z, and a pixel's ray has
length 1 along it. A quantity that may differ between environments has a row for each of them, or
one for all.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class View:
    """A camera of the model and its pixels."""

    camera: int
    height: int
    width: int
    near: float
    far: float
    lens: wp.array(dtype=wp.vec4)
    """``(num_envs or 1,)``: x and y of the first pixel's centre at depth 1, and the steps to the
    next column and row."""


@wp.struct
class Poses:
    """MuJoCo's own data fields, ``(num_envs, ...)``."""

    geom_xpos: wp.array2d(dtype=wp.vec3)
    geom_xmat: wp.array2d(dtype=wp.mat33)
    cam_xpos: wp.array2d(dtype=wp.vec3)
    cam_xmat: wp.array2d(dtype=wp.mat33)
    light_xpos: wp.array2d(dtype=wp.vec3)
    light_xdir: wp.array2d(dtype=wp.vec3)


@wp.struct
class Ground:
    """A height field; rows are along y, columns along x. No rows: no height field."""

    geom: int
    heights: wp.array2d(dtype=float)
    x: float
    y: float
    """Position of its first corner."""
    dx: float
    dy: float
    """Sizes of a cell."""


@wp.struct
class Shapes:
    """Visible geoms but the height field, and what is known of all geoms."""

    visible: wp.array(dtype=int)
    kind: wp.array2d(dtype=int)
    """``(num_envs or 1, ngeom)``, as the next two."""
    size: wp.array2d(dtype=wp.vec3)
    mesh: wp.array2d(dtype=int)
    """Index of a geom's mesh."""
    mesh_id: wp.array(dtype=wp.uint64)
    """Warp's name of each mesh."""
    centre: wp.array(dtype=wp.vec3)
    """Centre of each mesh's bounding box, and half its sizes."""
    half: wp.array(dtype=wp.vec3)
    first_corner: wp.array(dtype=int)
    """Where each mesh begins in ``corner_normal``."""
    corner_normal: wp.array(dtype=wp.vec3)
    """Normals at the corners of meshes' triangles, three for each."""


@wp.struct
class Eye:
    """A camera's pose and lens in one environment."""

    position: wp.vec3
    rotation: wp.mat33
    """From the camera's frame to the world's, or to a shape's."""
    x0: float
    y0: float
    dx: float
    dy: float


@wp.func
def eye_of(view: View, poses: Poses, n: int) -> Eye:
    """Return the camera of environment ``n`` in the world."""
    eye = Eye()
    eye.position = poses.cam_xpos[n, view.camera]
    # MuJoCo's cameras look along -z, with y up.
    turn = wp.mat33(1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, -1.0)
    eye.rotation = poses.cam_xmat[n, view.camera] * turn
    lens = view.lens[n % view.lens.shape[0]]
    eye.x0 = lens[0]
    eye.y0 = lens[1]
    eye.dx = lens[2]
    eye.dy = lens[3]
    return eye


@wp.func
def seen_from(eye: Eye, position: wp.vec3, rotation: wp.mat33) -> Eye:
    """Return the camera in the frame of a shape."""
    back = wp.transpose(rotation)
    seen = Eye()
    seen.position = back * (eye.position - position)
    seen.rotation = back * eye.rotation
    seen.x0 = eye.x0
    seen.y0 = eye.y0
    seen.dx = eye.dx
    seen.dy = eye.dy
    return seen
