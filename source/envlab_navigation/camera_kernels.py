"""Warp functions that find visible surfaces: one source for CPU and CUDA.

Everything stands upright, so a column of pixels is a vertical plane: walls are met in two
dimensions, once for all rows of the column, and a primitive covers an interval of rows, with
visibility by a z-buffer. That is 25 times faster on a CPU than a ray for every pixel, which
:func:`draw_tilted_strip` needs where the camera really pitches.

A pixel holds a number: 8 times the surface (a primitive; or one of the negative constants
below) plus the face. :mod:`envlab_navigation.paint_kernels` gives it a colour.

Functions are called once for a strip of columns and loop inside: Warp passes a struct by value, and
a copy of 700 bytes for each pixel halved the speed.
"""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

FAR = wp.constant(50.0)
"""In m: farther than anything in a house."""
NEAR = wp.constant(0.01)
"""In m: nearer surfaces are seen from within."""
STEEP = wp.constant(1.0e30)
"""Inverse slope of a level ray: finite, so that 0 m times it is 0 m."""
FLOOR, CEILING, WALL = wp.constant(-4), wp.constant(-3), wp.constant(-2)
"""Their classes, less 4."""
FACE_X, FACE_Y, TOP, BOTTOM, ROUND, BALL = (wp.constant(face) for face in range(6))
"""Sides across x and y, upper and lower end, side of a cylinder, sphere."""


Wall = wp.types.vector(length=4, dtype=float)
Primitive = wp.types.vector(length=8, dtype=float)
Paint = wp.types.vector(length=5, dtype=float)
Light = wp.types.vector(length=6, dtype=float)
"""Rows of :class:`.house.House`; an address for each takes half the time of one for each number."""


@wp.struct
class Scene:
    """The houses in memory, and the cameras in them."""

    walls: wp.array2d(dtype=Wall)
    primitives: wp.array2d(dtype=Primitive)
    colours: wp.array2d(dtype=wp.vec3)
    room_of: wp.array3d(dtype=wp.uint8)
    paints: wp.array3d(dtype=Paint)
    light: wp.array(dtype=Light)
    slot: wp.array(dtype=wp.int32)
    goal_class: wp.array(dtype=wp.int32)
    mirrored: wp.array(dtype=wp.bool)
    pose: wp.array2d(dtype=float)
    headings: wp.array(dtype=float)
    ceiling: float
    cells_per_m: float


@wp.struct
class View:
    """Cameras, sizes of images and of a pixel at 1 m, and the wanted images."""

    cameras: int
    height: int
    width: int
    strip: int
    pixel: float
    tilts: bool
    wants_depth: bool
    wants_rgb: bool
    wants_labels: bool
    wants_mask: bool


@wp.struct
class Scratch:
    """Buffers of strips, one row for each strip that is drawn concurrently."""

    inverse: wp.array2d(dtype=float)
    """By row of the image: distance ahead of its rays for each metre up."""
    ground: wp.array2d(dtype=float)
    """By row: distance at which its rays meet the floor or the ceiling."""
    near_wall: wp.array2d(dtype=float)
    """By column of the strip: distance at which its rays meet a wall."""
    depth: wp.array3d(dtype=float)
    """By column and row."""
    hit: wp.array3d(dtype=wp.int32)


@wp.struct
class Eye:
    """Position and direction of a camera."""

    x: float
    y: float
    z: float
    cos: float
    sin: float
    tan_pitch: float


@wp.func
def eye_of(scene: Scene, n: int, camera: int) -> Eye:
    """Return the eye of an environment's camera."""
    eye = Eye()
    heading = scene.headings[camera]
    yaw = scene.pose[n, 3] + wp.where(scene.mirrored[n], -heading, heading)
    eye.x = scene.pose[n, 0]
    eye.y = scene.pose[n, 1]
    eye.z = scene.pose[n, 2]
    eye.cos = wp.cos(yaw)
    eye.sin = wp.sin(yaw)
    eye.tan_pitch = scene.pose[n, 4]
    return eye


@wp.func
def across(view: View, j: int) -> float:
    """Return the distance to the right of a column's rays for each metre ahead."""
    return (float(j) + 0.5 - 0.5 * float(view.width)) * view.pixel


@wp.func
def upward(view: View, i: int) -> float:
    """Return the height of a row's rays for each metre ahead, for a level camera."""
    return (0.5 * float(view.height) - 0.5 - float(i)) * view.pixel


@wp.func
def ray_of(view: View, eye: Eye, i: int, j: int) -> wp.vec3:
    """Return a pixel's ray, of length 1 along the camera's axis."""
    x = across(view, j)
    ahead = float(1.0)
    up = upward(view, i)
    if view.tilts:
        cos = 1.0 / wp.sqrt(1.0 + eye.tan_pitch * eye.tan_pitch)
        sin = eye.tan_pitch * cos
        ahead = cos - up * sin
        up = sin + up * cos
    else:
        up = up + eye.tan_pitch
    return wp.vec3(eye.cos * ahead + eye.sin * x, eye.sin * ahead - eye.cos * x, up)


@wp.func
def slab(ox: float, oy: float, half_x: float, half_y: float, idx: float, idy: float) -> wp.vec3:
    """Return the distances at which a ray enters and leaves a rectangle, and the entry face.

    Args:
        ox: Centre of the rectangle as seen from the ray's origin.
        oy: The same along y.
        half_x: Half its size.
        half_y: The same along y.
        idx: Inverse of the ray's direction.
        idy: The same along y.
    """
    a1 = (ox - half_x) * idx
    a2 = (ox + half_x) * idx
    b1 = (oy - half_y) * idy
    b2 = (oy + half_y) * idy
    near_x = wp.min(a1, a2)
    near_y = wp.min(b1, b2)
    face = float(FACE_X)
    if near_y > near_x:
        face = float(FACE_Y)
    return wp.vec3(wp.max(near_x, near_y), wp.min(wp.max(a1, a2), wp.max(b1, b2)), face)


@wp.func
def meet(
    kind: int, half_x: float, half_y: float, ox: float, oy: float, dx: float, dy: float
) -> wp.vec3:
    """Return where a ray enters and leaves a primitive's footprint, and the entry face.

    If it misses, it leaves before it enters.
    """
    if kind == 0:
        return slab(ox, oy, half_x, half_y, 1.0 / dx, 1.0 / dy)
    a = dx * dx + dy * dy
    b = ox * dx + oy * dy
    d = b * b - a * (ox * ox + oy * oy - half_x * half_x)
    if d <= 0.0:
        return wp.vec3(1.0, -1.0, 0.0)
    root = wp.sqrt(d)
    return wp.vec3((b - root) / a, (b + root) / a, float(ROUND))


@wp.func
def meet_ball(ox: float, oy: float, oz: float, radius: float, ray: wp.vec3) -> float:
    """Return where a ray enters a sphere; a negative distance if it misses."""
    a = wp.dot(ray, ray)
    b = ox * ray[0] + oy * ray[1] + oz * ray[2]
    d = b * b - a * (ox * ox + oy * oy + oz * oz - radius * radius)
    if d <= 0.0:
        return -1.0
    return (b - wp.sqrt(d)) / a


# A camera whose pitch shifts the image plane ------------------------------------------------------


@wp.func
def prepare_rows(
    view: View,
    eye: Eye,
    ceiling: float,
    inverse: wp.array(dtype=float),
    ground: wp.array(dtype=float),
) -> int:
    """Fill ``inverse`` and ``ground`` of :class:`Scratch`; count the rows not looking down.

    A division takes longer than all other work on a pixel, and all columns share these.
    """
    horizon = int(0)
    for i in range(view.height):
        slope = upward(view, i) + eye.tan_pitch
        inverse[i] = STEEP
        if slope != 0.0:
            inverse[i] = 1.0 / slope
        end = -eye.z
        if slope >= 0.0:
            end = ceiling - eye.z
            horizon += 1
        ground[i] = end * inverse[i]
    return horizon


@wp.func
def draw_walls(
    walls: wp.array(dtype=Wall),
    view: View,
    eye: Eye,
    horizon: int,
    j0: int,
    j1: int,
    ground: wp.array(dtype=float),
    near_wall: wp.array(dtype=float),
    depth: wp.array2d(dtype=float),
    hit: wp.array2d(dtype=wp.int32),
) -> float:
    """Fill columns with the nearest wall, the floor below it and the ceiling above.

    Returns:
        The largest distance of these walls.
    """
    farthest = float(0.0)
    for j in range(j0, j1):
        x = across(view, j)
        idx = 1.0 / (eye.cos + eye.sin * x)
        idy = 1.0 / (eye.sin - eye.cos * x)
        wall = FAR
        face = int(0)
        for k in range(walls.shape[0]):
            box = walls[k]
            if box[2] < 0.0:
                break
            met = slab(box[0] - eye.x, box[1] - eye.y, box[2], box[3], idx, idy)
            if met[1] > met[0] and met[1] > 0.0 and met[0] < wall:
                wall = wp.max(met[0], NEAR)
                face = int(met[2])
        near_wall[j - j0] = wall
        farthest = wp.max(farthest, wall)
        column = depth[j - j0]
        hits = hit[j - j0]
        i = int(0)
        while i < view.height:
            t = ground[i]
            what = wp.where(i < horizon, CEILING * 8 + TOP, FLOOR * 8 + TOP)
            column[i] = wp.min(t, wall)
            hits[i] = wp.where(wall <= t, WALL * 8 + face, what)
            i += 1
    return farthest


@wp.func
def covered_columns(view: View, ahead: float, right: float, radius: float) -> wp.vec2i:
    """Return the first column in which a circle is visible, and the one after the last."""
    if ahead + radius < NEAR:
        return wp.vec2i(0, 0)
    if ahead - radius <= 0.05:
        return wp.vec2i(0, view.width)
    near = 1.0 / (ahead - radius)
    far = 1.0 / (ahead + radius)
    low = wp.min((right - radius) * near, (right - radius) * far)
    high = wp.max((right + radius) * near, (right + radius) * far)
    half = 0.5 * float(view.width)
    first = int(wp.floor(low / view.pixel + half - 0.5))
    last = int(wp.ceil(high / view.pixel + half - 0.5))
    return wp.vec2i(wp.max(first, 0), wp.min(last + 1, view.width))


@wp.func
def cover_rows(
    met: wp.vec3,
    lower: float,
    upper: float,
    what: int,
    end_face: int,
    i0: int,
    i1: int,
    inverse: wp.array(dtype=float),
    depth: wp.array(dtype=float),
    hit: wp.array(dtype=wp.int32),
) -> None:
    """Draw a box or a cylinder in rows of a column that all look up, or all look down.

    Args:
        met: Where the column enters and leaves its floor plan, and the entry face.
        lower: Height above the eye of the end that rays reach first.
        upper: Height of the other end.
        what: 8 times its number.
        end_face: The face of the end that rays reach first.
        i0: The first row.
        i1: The row after the last.
        inverse: Of :class:`Scratch`, for this strip.
        depth: Of this column; updated.
        hit: Of this column; updated.
    """
    side = what + int(met[2])
    i = wp.max(i0, 0)
    while i < i1:
        at_end = lower * inverse[i]
        t = wp.max(met[0], at_end)
        if t < depth[i] and t <= wp.min(met[1], upper * inverse[i]):
            depth[i] = t
            hit[i] = wp.where(at_end > met[0], what + end_face, side)
        i += 1


@wp.func
def draw_primitives(
    primitives: wp.array(dtype=Primitive),
    view: View,
    eye: Eye,
    horizon: int,
    farthest: float,
    j0: int,
    j1: int,
    inverse: wp.array(dtype=float),
    near_wall: wp.array(dtype=float),
    depth: wp.array2d(dtype=float),
    hit: wp.array2d(dtype=wp.int32),
) -> None:
    """Draw the visible parts of all primitives in the columns of a strip."""
    rows_per_slope = 1.0 / view.pixel
    middle = float(view.height) * 0.5
    for k in range(primitives.shape[0]):
        shape = primitives[k]
        if shape[2] < 0.0:
            break
        ox = shape[0] - eye.x
        oy = shape[1] - eye.y
        kind = int(shape[6])
        radius = shape[2]
        if kind == 0:
            radius = wp.sqrt(shape[2] * shape[2] + shape[3] * shape[3])
        ahead = eye.cos * ox + eye.sin * oy
        columns = wp.vec2i(0, 0)
        if ahead - radius < farthest:
            columns = covered_columns(view, ahead, eye.sin * ox - eye.cos * oy, radius)
        z0 = shape[4] - eye.z
        z1 = shape[5] - eye.z
        for j in range(wp.max(columns[0], j0), wp.min(columns[1], j1)):
            wall = near_wall[j - j0]
            if ahead - radius >= wall:
                continue
            x = across(view, j)
            dx = eye.cos + eye.sin * x
            dy = eye.sin - eye.cos * x
            met = meet(kind, shape[2], shape[3], ox, oy, dx, dy)
            if met[1] > met[0] and met[1] > 0.0 and met[0] < wall:
                met = wp.vec3(wp.max(met[0], NEAR), met[1], met[2])
                near = 1.0 / met[0]
                far = 1.0 / met[1]
                low = wp.min(z0 * near, z0 * far) - eye.tan_pitch
                high = wp.max(z1 * near, z1 * far) - eye.tan_pitch
                i0 = wp.max(int(wp.ceil(middle - high * rows_per_slope - 0.5)), 0)
                i1 = wp.min(int(wp.floor(middle - low * rows_per_slope + 0.5)), view.height)
                column = depth[j - j0]
                hits = hit[j - j0]
                if kind == 2:
                    for i in range(i0, i1):
                        ray = wp.vec3(dx, dy, upward(view, i) + eye.tan_pitch)
                        t = meet_ball(ox, oy, 0.5 * (z0 + z1), shape[2], ray)
                        if t > 0.0 and t < column[i]:
                            column[i] = t
                            hits[i] = k * 8 + BALL
                else:
                    turn = wp.clamp(horizon, i0, wp.max(i0, i1))
                    cover_rows(met, z0, z1, k * 8, BOTTOM, i0, turn, inverse, column, hits)
                    cover_rows(met, z1, z0, k * 8, TOP, turn, i1, inverse, column, hits)


# A camera that really pitches ---------------------------------------------------------------------


@wp.func
def meet_solid(shape: Primitive, eye: Eye, ray: wp.vec3) -> wp.vec3:
    """Return where a ray enters and leaves a primitive, and the entry face."""
    ox = shape[0] - eye.x
    oy = shape[1] - eye.y
    z0 = shape[4] - eye.z
    z1 = shape[5] - eye.z
    if int(shape[6]) == 2:
        t = meet_ball(ox, oy, 0.5 * (z0 + z1), shape[2], ray)
        return wp.vec3(t, t, float(BALL))
    met = meet(int(shape[6]), shape[2], shape[3], ox, oy, ray[0], ray[1])
    if met[1] <= met[0] or met[1] <= 0.0:
        return wp.vec3(1.0, -1.0, 0.0)
    enter = wp.max(met[0], NEAR)
    leave = met[1]
    face = met[2]
    if ray[2] > 1.0e-6:
        if z0 / ray[2] > enter:
            enter = z0 / ray[2]
            face = float(BOTTOM)
        leave = wp.min(leave, z1 / ray[2])
    elif ray[2] < -1.0e-6:
        if z1 / ray[2] > enter:
            enter = z1 / ray[2]
            face = float(TOP)
        leave = wp.min(leave, z0 / ray[2])
    elif z0 > 0.0 or z1 < 0.0:
        leave = float(-1.0)
    return wp.vec3(enter, leave, face)


@wp.func
def draw_tilted_strip(
    walls: wp.array(dtype=Wall),
    primitives: wp.array(dtype=Primitive),
    ceiling: float,
    view: View,
    eye: Eye,
    j0: int,
    j1: int,
    depth: wp.array2d(dtype=float),
    hit: wp.array2d(dtype=wp.int32),
) -> None:
    """Draw a strip, a ray for each pixel."""
    for j in range(j0, j1):
        for i in range(view.height):
            ray = ray_of(view, eye, i, j)
            best = (ceiling - eye.z) / ray[2]
            what = CEILING * 8 + TOP
            if ray[2] < 0.0:
                best = -eye.z / ray[2]
                what = FLOOR * 8 + TOP
            for k in range(walls.shape[0]):
                box = walls[k]
                if box[2] < 0.0:
                    break
                met = slab(
                    box[0] - eye.x, box[1] - eye.y, box[2], box[3], 1.0 / ray[0], 1.0 / ray[1]
                )
                if met[1] > met[0] and met[1] > 0.0 and met[0] < best:
                    best = wp.max(met[0], NEAR)
                    what = WALL * 8 + int(met[2])
            for k in range(primitives.shape[0]):
                shape = primitives[k]
                if shape[2] < 0.0:
                    break
                found = meet_solid(shape, eye, ray)
                if found[0] <= found[1] and found[0] > 0.0 and found[0] < best:
                    best = found[0]
                    what = k * 8 + int(found[2])
            depth[j - j0, i] = best
            hit[j - j0, i] = what
