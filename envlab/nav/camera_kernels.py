"""Warp kernels that draw what cameras see: one source for CPU and CUDA.

Everything stands upright, so a column of pixels is a vertical plane: walls are met in two
dimensions, once for all of its rows, and a primitive covers an interval of rows, which a z-buffer
decides. That is 25 times faster on a CPU than a ray for every pixel, which :func:`draw_tilted`
needs where the camera really pitches.

What a pixel shows is a number: 8 times the surface (a primitive; or one of the negative constants
below) plus the face. :mod:`envlab.nav.paint_kernels` gives it a colour.

Functions are given arrays, not the structs that hold them: Warp passes a struct by value, and a
copy of 700 bytes for each pixel halved the speed.
"""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

FAR = wp.constant(50.0)
"""In m: farther than anything in a house."""
NEAR = wp.constant(0.01)
"""In m: what is nearer is seen from within."""
FLOOR, CEILING, WALL = wp.constant(-4), wp.constant(-3), wp.constant(-2)
"""Their classes, less 4."""
FACE_X, FACE_Y, TOP, BOTTOM, ROUND, BALL = (wp.constant(face) for face in range(6))
"""Sides across x and y, upper and lower end, side of a cylinder, sphere."""


Wall = wp.types.vector(length=4, dtype=float)
Primitive = wp.types.vector(length=8, dtype=float)
Paint = wp.types.vector(length=5, dtype=float)
Light = wp.types.vector(length=6, dtype=float)
"""Rows of :class:`envlab.nav.house.House`; one address for each takes half the time of one for each
number."""


@wp.struct
class Scene:
    """The houses that are in memory, and where the cameras are in them."""

    walls: wp.array2d(dtype=Wall)
    primitives: wp.array2d(dtype=Primitive)
    colours: wp.array2d(dtype=wp.vec3)
    room_of: wp.array3d(dtype=wp.uint8)
    paints: wp.array3d(dtype=Paint)
    light: wp.array(dtype=Light)
    slot: wp.array(dtype=wp.int32)
    goal_class: wp.array(dtype=wp.int32)
    pose: wp.array2d(dtype=float)
    headings: wp.array(dtype=float)
    ceiling: float
    cells_per_m: float


@wp.struct
class View:
    """Sizes of the images, of a pixel at 1 m, and what of the images is wanted."""

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
class Images:
    """What is drawn, by environment, row, column and camera."""

    depth: wp.array4d(dtype=float)
    rgb: wp.array4d(dtype=wp.vec3ub)
    labels: wp.array4d(dtype=wp.uint8)
    goal_mask: wp.array4d(dtype=wp.uint8)
    seen: wp.array3d(dtype=wp.int32)


@wp.struct
class Scratch:
    """What a strip needs while it is drawn, by thread, column and row."""

    near_wall: wp.array2d(dtype=float)
    depth: wp.array3d(dtype=float)
    hit: wp.array3d(dtype=wp.int32)


@wp.struct
class Eye:
    """Where a camera is and looks."""

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
    yaw = scene.pose[n, 3] + scene.headings[camera]
    eye.x = scene.pose[n, 0]
    eye.y = scene.pose[n, 1]
    eye.z = scene.pose[n, 2]
    eye.cos = wp.cos(yaw)
    eye.sin = wp.sin(yaw)
    eye.tan_pitch = scene.pose[n, 4]
    return eye


@wp.func
def across(view: View, j: int) -> float:
    """Return how far right a column's rays go for each metre ahead."""
    return (float(j) + 0.5 - 0.5 * float(view.width)) * view.pixel


@wp.func
def upward(view: View, i: int) -> float:
    """Return how far up a row's rays go for each metre ahead, of a camera that looks level."""
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
    """Return where a ray enters and leaves a rectangle, and the face that it enters by.

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
def draw_structure(
    walls: wp.array2d(dtype=Wall),
    ceiling: float,
    view: View,
    eye: Eye,
    h: int,
    row: int,
    j: int,
    near_wall: wp.array2d(dtype=float),
    depth: wp.array3d(dtype=float),
    hit: wp.array3d(dtype=wp.int32),
) -> None:
    """Fill a column with the nearest wall, the floor below it and the ceiling above."""
    x = across(view, j)
    idx = 1.0 / (eye.cos + eye.sin * x)
    idy = 1.0 / (eye.sin - eye.cos * x)
    wall = FAR
    face = int(0)
    for k in range(walls.shape[1]):
        box = walls[h, k]
        if box[2] < 0.0:
            break
        met = slab(box[0] - eye.x, box[1] - eye.y, box[2], box[3], idx, idy)
        if met[1] > met[0] and met[1] > 0.0 and met[0] < wall:
            wall = wp.max(met[0], NEAR)
            face = int(met[2])
    near_wall[row, j] = wall
    for i in range(view.height):
        slope = upward(view, i) + eye.tan_pitch
        end = ceiling - eye.z
        what = CEILING * 8 + TOP
        if slope < 0.0:
            end = -eye.z
            what = FLOOR * 8 + TOP
        t = end / slope
        if wall <= t or slope == 0.0:
            t = wall
            what = WALL * 8 + face
        depth[row, j, i] = t
        hit[row, j, i] = what


@wp.func
def covered_columns(view: View, eye: Eye, ox: float, oy: float, radius: float) -> wp.vec2i:
    """Return the first column that a circle can be seen in, and the one after the last."""
    ahead = eye.cos * ox + eye.sin * oy
    right = eye.sin * ox - eye.cos * oy
    if ahead + radius < NEAR:
        return wp.vec2i(0, 0)
    if ahead - radius <= 0.05:
        return wp.vec2i(0, view.width)
    near = ahead - radius
    far = ahead + radius
    low = wp.min((right - radius) / near, (right - radius) / far)
    high = wp.max((right + radius) / near, (right + radius) / far)
    half = 0.5 * float(view.width)
    first = int(wp.floor(low / view.pixel + half - 0.5))
    last = int(wp.ceil(high / view.pixel + half - 0.5))
    return wp.vec2i(wp.max(first, 0), wp.min(last + 1, view.width))


@wp.func
def meet(
    kind: int, half_x: float, half_y: float, ox: float, oy: float, dx: float, dy: float
) -> wp.vec3:
    """Return where a ray enters and leaves a primitive's floor plan, and by which face.

    It leaves before it enters where it misses.
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
def meet_in_row(
    met: wp.vec3, kind: int, ox: float, oy: float, z0: float, z1: float, radius: float, ray: wp.vec3
) -> wp.vec3:
    """Return where a ray enters and leaves a primitive, and by which face.

    Args:
        met: Where it enters and leaves the floor plan.
        kind: Box, cylinder or sphere.
        ox: Centre as seen from the eye.
        oy: The same along y.
        z0: Lower end as seen from the eye.
        z1: Upper end.
        radius: Of a sphere.
        ray: The ray's direction.
    """
    enter = met[0]
    leave = met[1]
    face = met[2]
    if kind == 2:
        oz = 0.5 * (z0 + z1)
        a = wp.dot(ray, ray)
        b = ox * ray[0] + oy * ray[1] + oz * ray[2]
        d = b * b - a * (ox * ox + oy * oy + oz * oz - radius * radius)
        if d <= 0.0:
            return wp.vec3(1.0, -1.0, 0.0)
        enter = (b - wp.sqrt(d)) / a
        return wp.vec3(enter, enter, float(BALL))
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
def draw_primitive(
    shape: Primitive,
    view: View,
    eye: Eye,
    k: int,
    row: int,
    j0: int,
    j1: int,
    near_wall: wp.array2d(dtype=float),
    depth: wp.array3d(dtype=float),
    hit: wp.array3d(dtype=wp.int32),
) -> None:
    """Draw what is seen of a primitive in the columns of a strip."""
    ox = shape[0] - eye.x
    oy = shape[1] - eye.y
    z0 = shape[4] - eye.z
    z1 = shape[5] - eye.z
    kind = int(shape[6])
    radius = shape[2]
    if kind == 0:
        radius = wp.sqrt(shape[2] * shape[2] + shape[3] * shape[3])
    columns = covered_columns(view, eye, ox, oy, radius)
    rows_per_slope = 1.0 / view.pixel
    middle = float(view.height) * 0.5
    for j in range(wp.max(columns[0], j0), wp.min(columns[1], j1)):
        x = across(view, j)
        dx = eye.cos + eye.sin * x
        dy = eye.sin - eye.cos * x
        met = meet(kind, shape[2], shape[3], ox, oy, dx, dy)
        if met[1] > met[0] and met[1] > 0.0 and met[0] < near_wall[row, j]:
            met = wp.vec3(wp.max(met[0], NEAR), met[1], met[2])
            low = wp.min(z0 / met[0], z0 / met[1]) - eye.tan_pitch
            high = wp.max(z1 / met[0], z1 / met[1]) - eye.tan_pitch
            i0 = wp.max(int(wp.ceil(middle - high * rows_per_slope - 0.5)), 0)
            i1 = wp.min(int(wp.floor(middle - low * rows_per_slope - 0.5)), view.height - 1)
            for i in range(i0, i1 + 1):
                ray = wp.vec3(dx, dy, upward(view, i) + eye.tan_pitch)
                found = meet_in_row(met, kind, ox, oy, z0, z1, shape[2], ray)
                if found[0] <= found[1] and found[0] > 0.0 and found[0] < depth[row, j, i]:
                    depth[row, j, i] = found[0]
                    hit[row, j, i] = k * 8 + int(found[2])


@wp.kernel
def draw(
    scene: Scene, view: View, wanted: wp.array(dtype=wp.bool), first_env: int, scratch: Scratch
):
    """Draw a strip of columns, of a camera whose pitch shifts the image plane.

    Threads are environment, camera and strip; those of an environment that is not ``wanted`` do
    nothing.
    """
    thread, camera, strip = wp.tid()
    n = first_env + thread
    if not wanted[n]:
        return
    row = thread * scene.headings.shape[0] + camera
    h = scene.slot[n]
    eye = eye_of(scene, n, camera)
    j0 = strip * view.strip
    j1 = wp.min(j0 + view.strip, view.width)
    for j in range(j0, j1):
        draw_structure(
            scene.walls,
            scene.ceiling,
            view,
            eye,
            h,
            row,
            j,
            scratch.near_wall,
            scratch.depth,
            scratch.hit,
        )
    for k in range(scene.primitives.shape[1]):
        shape = scene.primitives[h, k]
        if shape[2] < 0.0:
            break
        draw_primitive(
            shape,
            view,
            eye,
            k,
            row,
            j0,
            j1,
            scratch.near_wall,
            scratch.depth,
            scratch.hit,
        )


@wp.kernel
def draw_tilted(
    scene: Scene, view: View, wanted: wp.array(dtype=wp.bool), first_env: int, scratch: Scratch
):
    """Draw a strip of columns, of a camera that really pitches; see :func:`draw`."""
    thread, camera, strip = wp.tid()
    n = first_env + thread
    if not wanted[n]:
        return
    row = thread * scene.headings.shape[0] + camera
    h = scene.slot[n]
    eye = eye_of(scene, n, camera)
    for j in range(strip * view.strip, wp.min((strip + 1) * view.strip, view.width)):
        for i in range(view.height):
            ray = ray_of(view, eye, i, j)
            best = (scene.ceiling - eye.z) / ray[2]
            what = CEILING * 8 + TOP
            if ray[2] < 0.0:
                best = -eye.z / ray[2]
                what = FLOOR * 8 + TOP
            for k in range(scene.walls.shape[1]):
                box = scene.walls[h, k]
                if box[2] < 0.0:
                    break
                ox = box[0] - eye.x
                oy = box[1] - eye.y
                met = slab(ox, oy, box[2], box[3], 1.0 / ray[0], 1.0 / ray[1])
                if met[1] > met[0] and met[1] > 0.0 and met[0] < best:
                    best = wp.max(met[0], NEAR)
                    what = WALL * 8 + int(met[2])
            for k in range(scene.primitives.shape[1]):
                shape = scene.primitives[h, k]
                if shape[2] < 0.0:
                    break
                ox = shape[0] - eye.x
                oy = shape[1] - eye.y
                kind = int(shape[6])
                met = meet(kind, shape[2], shape[3], ox, oy, ray[0], ray[1])
                if met[1] > met[0] and met[1] > 0.0 and met[0] < best:
                    met = wp.vec3(wp.max(met[0], NEAR), met[1], met[2])
                    z0 = shape[4] - eye.z
                    z1 = shape[5] - eye.z
                    found = meet_in_row(met, kind, ox, oy, z0, z1, shape[2], ray)
                    if found[0] <= found[1] and found[0] > 0.0 and found[0] < best:
                        best = found[0]
                        what = k * 8 + int(found[2])
            scratch.depth[row, j, i] = best
            scratch.hit[row, j, i] = what
