"""The content of pictures as Warp structs, and where a camera's rays meet MuJoCo's shapes.

The camera looks along z, with x to the right and y down. Depth is along z, and a pixel's ray has
length 1 along it. A quantity that may differ between environments has a row for each of them, or
one for all.

Rays start at ``o`` and run along ``d``, in the shape's own frame. Distances are in units of the
length of ``d``. Only the side that faces the ray counts, as in OpenGL: -1 is a miss, and so is a
shape that the ray starts in. Normals have length 1.
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


wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = (
    wp.constant(kind) for kind in range(8)
)
"""MuJoCo's ``mjtGeom``."""


@wp.func
def meet_ball(o: wp.vec3, d: wp.vec3, radius: float) -> float:
    """Meet a sphere around the origin."""
    a = wp.dot(d, d)
    b = wp.dot(o, d)
    square = b * b - a * (wp.dot(o, o) - radius * radius)
    if square < 0.0:
        return -1.0
    return (-b - wp.sqrt(square)) / a


@wp.func
def meet_side(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    """Meet the side of a cylinder along z."""
    a = d[0] * d[0] + d[1] * d[1]
    b = o[0] * d[0] + o[1] * d[1]
    square = b * b - a * (o[0] * o[0] + o[1] * o[1] - radius * radius)
    if square >= 0.0 and a > 0.0:
        t = (-b - wp.sqrt(square)) / a
        if wp.abs(o[2] + t * d[2]) <= half:
            return t
    return -1.0


@wp.func
def meet_capsule(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    """Meet a capsule along z."""
    t = meet_side(o, d, radius, half)
    if t > 0.0:
        return t
    sign = float(1.0)
    for _ in range(2):
        t = meet_ball(wp.vec3(o[0], o[1], o[2] - sign * half), d, radius)
        if t > 0.0 and sign * (o[2] + t * d[2]) >= half:
            return t
        sign = -sign
    return -1.0


@wp.func
def meet_cylinder(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    """Meet a cylinder along z."""
    if wp.abs(d[2]) > 1.0e-12:
        t = (-wp.sign(d[2]) * half - o[2]) / d[2]  # the lid that faces the ray
        x = o[0] + t * d[0]
        y = o[1] + t * d[1]
        if t > 0.0 and x * x + y * y <= radius * radius:
            return t
    return meet_side(o, d, radius, half)


@wp.func
def meet_box(o: wp.vec3, d: wp.vec3, half: wp.vec3) -> float:
    """Meet a box."""
    enter = float(-1.0e30)
    leave = float(1.0e30)
    for axis in range(3):
        if wp.abs(d[axis]) > 1.0e-12:
            first = (-half[axis] - o[axis]) / d[axis]
            second = (half[axis] - o[axis]) / d[axis]
            enter = wp.max(enter, wp.min(first, second))
            leave = wp.min(leave, wp.max(first, second))
        elif wp.abs(o[axis]) > half[axis]:
            return -1.0
    return wp.where(enter > leave, -1.0, enter)


@wp.func
def meet_plane(o: wp.vec3, d: wp.vec3, half: wp.vec3) -> float:
    """Meet a plane from above; half sizes of 0 are infinite."""
    if d[2] >= 0.0:
        return -1.0
    t = -o[2] / d[2]
    x = wp.abs(o[0] + t * d[0])
    y = wp.abs(o[1] + t * d[1])
    if (half[0] > 0.0 and x > half[0]) or (half[1] > 0.0 and y > half[1]):
        return -1.0
    return t


@wp.func
def meet_mesh(mesh: wp.uint64, o: wp.vec3, d: wp.vec3) -> float:
    """Meet a mesh."""
    length = wp.length(d)
    hit = wp.mesh_query_ray(mesh, o, d / length, 1.0e6)
    if hit.result and hit.sign > 0.0:
        return hit.t / length
    return -1.0


@wp.func
def meet_shape(kind: int, size: wp.vec3, mesh: wp.uint64, o: wp.vec3, d: wp.vec3) -> float:
    """Meet a shape of MuJoCo's size, or a mesh."""
    t = float(-1.0)
    if kind == BOX:
        t = meet_box(o, d, size)
    elif kind == SPHERE:
        t = meet_ball(o, d, size[0])
    elif kind == CAPSULE:
        t = meet_capsule(o, d, size[0], size[1])
    elif kind == CYLINDER:
        t = meet_cylinder(o, d, size[0], size[1])
    elif kind == ELLIPSOID:
        t = meet_ball(wp.cw_div(o, size), wp.cw_div(d, size), 1.0)
    elif kind == PLANE:
        t = meet_plane(o, d, size)
    elif kind == MESH:
        t = meet_mesh(mesh, o, d)
    return t


@wp.func
def half_sizes(kind: int, size: wp.vec3) -> wp.vec3:
    """Return half the sizes of the box around a shape; not of a mesh."""
    if kind == SPHERE:
        return wp.vec3(size[0], size[0], size[0])
    if kind == CAPSULE:
        return wp.vec3(size[0], size[0], size[0] + size[1])
    if kind == CYLINDER:
        return wp.vec3(size[0], size[0], size[1])
    return size


@wp.func
def shape_normal(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec3:
    """Return the normal at a point of a shape's surface; not for meshes."""
    if kind == BOX:
        r = wp.cw_div(p, size)
        a = wp.vec3(wp.abs(r[0]), wp.abs(r[1]), wp.abs(r[2]))
        if a[0] >= a[1] and a[0] >= a[2]:
            return wp.vec3(wp.sign(r[0]), 0.0, 0.0)
        if a[1] >= a[2]:
            return wp.vec3(0.0, wp.sign(r[1]), 0.0)
        return wp.vec3(0.0, 0.0, wp.sign(r[2]))
    if kind == SPHERE:
        return wp.normalize(p)
    if kind == CAPSULE:
        return wp.normalize(wp.vec3(p[0], p[1], p[2] - wp.clamp(p[2], -size[1], size[1])))
    if kind == CYLINDER:
        # On the rim the lid and the side meet; the nearer surface counts.
        side = wp.abs(wp.sqrt(p[0] * p[0] + p[1] * p[1]) - size[0])
        if wp.abs(wp.abs(p[2]) - size[1]) < side:
            return wp.vec3(0.0, 0.0, wp.sign(p[2]))
        return wp.normalize(wp.vec3(p[0], p[1], 0.0))
    if kind == ELLIPSOID:
        return wp.normalize(wp.cw_div(p, wp.cw_mul(size, size)))
    return wp.vec3(0.0, 0.0, 1.0)
