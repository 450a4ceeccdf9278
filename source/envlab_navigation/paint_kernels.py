"""Warp kernels that give pixels their colours and labels: textures, paints and light.

:mod:`envlab_navigation.camera_kernels` drew each pixel's surface. Colours are those of a matt
surface: its paint, its pattern, and the house's light, which weakens with distance.
"""

from __future__ import annotations

import warp as wp

from envlab_navigation.camera_kernels import (
    BALL,
    BOTTOM,
    CEILING,
    FACE_X,
    FACE_Y,
    FLOOR,
    ROUND,
    TOP,
    WALL,
    Eye,
    Light,
    Paint,
    Primitive,
    Scene,
    Scratch,
    View,
    draw_primitives,
    draw_tilted_strip,
    draw_walls,
    eye_of,
    prepare_rows,
    ray_of,
)

wp.set_module_options({"enable_backward": False})

TILES, PLANKS = wp.constant(0.0), wp.constant(1.0)
"""Patterns of :class:`envlab_navigation.house.House`; any other is plain."""


@wp.struct
class Images:
    """Images by environment, and by a joint index of row, column and camera."""

    depth: wp.array2d(dtype=float)
    rgb: wp.array2d(dtype=wp.vec3ub)
    labels: wp.array2d(dtype=wp.uint8)
    goal_mask: wp.array2d(dtype=wp.uint8)
    seen: wp.array3d(dtype=wp.int32)


@wp.func
def hashed(x: int, y: int) -> float:
    """Return a number in [0, 1] that varies from one pair to the next."""
    h = x * 374761393 + y * 668265263
    h = (h ^ (h >> 13)) * 1274126177
    return float((h ^ (h >> 16)) & 255) / 255.0


@wp.func
def patterned(finish: Paint, u: float, v: float) -> float:
    """Return the brightness of a surface's pattern at a point of it.

    Args:
        finish: See :func:`finish_of`.
        u: Coordinate along the surface, in m, not negative: truncation rounds down, and takes a
            fifth of the time of ``floor`` on a CPU.
        v: The other coordinate.
    """
    kind = finish[3]
    density = finish[4]
    if kind == TILES:
        return 0.85 + 0.15 * float((int(u * density) + int(v * density)) & 1)
    if kind == PLANKS:
        column = int(u * density * 2.5)
        return 0.8 + 0.2 * hashed(column, int(v * 0.9 + 0.37 * float(column)))
    return 0.9


@wp.func
def normal_of(face: int, ray: wp.vec3, from_middle: wp.vec3) -> wp.vec3:
    """Return the normal where a ray meets a solid; ``from_middle`` leads there from its middle."""
    if face == FACE_X:
        return wp.vec3(-wp.sign(ray[0]), 0.0, 0.0)
    if face == FACE_Y:
        return wp.vec3(0.0, -wp.sign(ray[1]), 0.0)
    if face == TOP:
        return wp.vec3(0.0, 0.0, 1.0)
    if face == BOTTOM:
        return wp.vec3(0.0, 0.0, -1.0)
    return from_middle


@wp.func
def middle_to(shape: Primitive, face: int, point: wp.vec3) -> wp.vec3:
    """Return the unit vector from a cylinder's axis, or a sphere's middle, to its surface."""
    up = float(0.0)
    if face == BALL:
        up = point[2] - 0.5 * (shape[4] + shape[5])
    return wp.vec3(point[0] - shape[0], point[1] - shape[1], up) / shape[2]


@wp.func
def finish_of(
    colours: wp.array(dtype=wp.vec3),
    paints: wp.array2d(dtype=Paint),
    room_of: wp.array2d(dtype=wp.uint8),
    cells_per_m: float,
    surface: int,
    point: wp.vec3,
    ray: wp.vec3,
) -> Paint:
    """Return the colour of a surface, its pattern, and its number of tiles per m.

    A floor is painted by its room, and a wall by the room in front of it.
    """
    if surface >= 0:
        colour = colours[surface]
        return Paint(colour[0], colour[1], colour[2], 0.0, 0.0)
    if surface == CEILING:
        return Paint(0.9, 0.9, 0.9, 0.0, 0.0)
    u = int((point[0] - 0.03 * ray[0]) * cells_per_m)
    v = int((point[1] - 0.03 * ray[1]) * cells_per_m)
    u = wp.clamp(u, 0, room_of.shape[1] - 1)
    v = wp.clamp(v, 0, room_of.shape[0] - 1)
    side = wp.where(surface == WALL, 1, 0)
    return paints[int(room_of[v, u]), side]


@wp.func
def brightness(
    lamp: Light, shape: Primitive, face: int, point: wp.vec3, ray: wp.vec3, t: float
) -> float:
    """Return the brightness of a matt surface in the house's light, up to about 255."""
    from_middle = wp.vec3(0.0, 0.0, 0.0)
    if face >= ROUND:
        from_middle = middle_to(shape, face, point)
    normal = normal_of(face, ray, from_middle)
    lit = normal[0] * lamp[3] + normal[1] * lamp[4]
    return (204.0 + 41.0 * lit + 46.0 * normal[2]) / (1.0 + lamp[5] * t * t)


@wp.func
def label_strip(
    primitives: wp.array(dtype=Primitive),
    view: View,
    goal: int,
    first: int,
    step: int,
    j0: int,
    j1: int,
    depth: wp.array2d(dtype=float),
    hit: wp.array2d(dtype=wp.int32),
    depths: wp.array(dtype=float),
    labels: wp.array(dtype=wp.uint8),
    goal_mask: wp.array(dtype=wp.uint8),
) -> int:
    """Write the images of a strip that have no colour.

    Args:
        primitives: Primitives of the house.
        view: The wanted images.
        goal: Class of the goal.
        first: Index of the strip's first pixel in an image.
        step: Index step to the pixel on its right; negative if mirrored.
        j0: The first column.
        j1: The column after the last.
        depth: Depths of the strip.
        hit: Surfaces of the strip.
        depths: Image of an environment; written.
        labels: The same.
        goal_mask: The same.

    Returns:
        The number of pixels that show the goal's class.
    """
    seen = int(0)
    j = int(0)
    while j < j1 - j0:
        column = depth[j]
        hits = hit[j]
        pixel = first + j * step
        last = int(0)
        label = int(-1)
        is_goal = int(0)
        i = int(0)
        while i < view.height:
            what = hits[i]
            if what != last or label < 0:
                last = what
                label = (what >> 3) + 4
                if what >= 0:
                    label = int(primitives[what >> 3][7])
                is_goal = wp.where(label == goal, 1, 0)
            seen += is_goal
            if view.wants_depth:
                depths[pixel] = column[i]
            if view.wants_labels:
                labels[pixel] = wp.uint8(label)
            if view.wants_mask:
                goal_mask[pixel] = wp.uint8(255 * is_goal)
            i += 1
            pixel += view.width * view.cameras
        j += 1
    return seen


@wp.func
def colour_strip(
    primitives: wp.array(dtype=Primitive),
    colours: wp.array(dtype=wp.vec3),
    paints: wp.array2d(dtype=Paint),
    room_of: wp.array2d(dtype=wp.uint8),
    cells_per_m: float,
    lamp: Light,
    view: View,
    eye: Eye,
    first: int,
    step: int,
    j0: int,
    j1: int,
    depth: wp.array2d(dtype=float),
    hit: wp.array2d(dtype=wp.int32),
    rgb: wp.array(dtype=wp.vec3ub),
) -> None:
    """Write the colours of a strip; see :func:`label_strip`."""
    lamp_colour = wp.vec3(lamp[0], lamp[1], lamp[2])
    j = int(0)
    while j < j1 - j0:
        column = depth[j]
        hits = hit[j]
        pixel = first + j * step
        last = int(0)
        last_t = float(-1.0)
        last_light = float(0.0)
        along = float(0.0)
        finish = Paint()
        base = wp.vec3()
        ink = wp.vec3ub()
        i = int(0)
        while i < view.height:
            t = column[i]
            what = hits[i]
            surface = what >> 3
            face = what & 7
            ray = ray_of(view, eye, i, j0 + j)
            light = float(1.0)
            # An upright surface has one distance and one brightness in all of a column's rows.
            is_new = what != last or t != last_t or face == BALL
            if is_new:
                point = wp.vec3(eye.x, eye.y, eye.z) + t * ray
                finish = finish_of(colours, paints, room_of, cells_per_m, surface, point, ray)
                shape = primitives[wp.max(surface, 0)]
                light = brightness(lamp, shape, face, point, ray, t)
                if surface == FLOOR:
                    light *= patterned(finish, point[0], point[1])
                base = wp.cw_mul(wp.vec3(finish[0], finish[1], finish[2]), lamp_colour) * light
                along = wp.where(face == FACE_X, point[1], point[0])
                last = what
                last_t = t
            light = float(1.0)
            if surface == WALL:
                up = eye.z + t * ray[2]
                light = patterned(finish, along, up)
                if up < 0.1:  # a skirting board
                    light = float(0.45)
            if is_new or light != last_light:
                last_light = light
                ink = wp.vec3ub(
                    wp.uint8(wp.min(base[0] * light, 255.0)),
                    wp.uint8(wp.min(base[1] * light, 255.0)),
                    wp.uint8(wp.min(base[2] * light, 255.0)),
                )
            rgb[pixel] = ink
            i += 1
            pixel += view.width * view.cameras
        j += 1


@wp.kernel
def take_picture(
    scene: Scene,
    view: View,
    wanted: wp.array(dtype=wp.bool),
    first_env: int,
    scratch: Scratch,
    images: Images,
):
    """Draw and paint a strip of columns; threads are environment, camera and strip.

    Threads of an environment that is not ``wanted`` do nothing. Threads share the rows of
    ``scratch``: a CPU, which runs them one after another, needs a single row.
    """
    thread, camera, strip = wp.tid()
    n = first_env + thread
    if not wanted[n]:
        return
    eye = eye_of(scene, n, camera)
    walls = scene.walls[scene.slot[n]]
    primitives = scene.primitives[scene.slot[n]]
    j0 = strip * view.strip
    j1 = wp.min(j0 + view.strip, view.width)
    num_strips = images.seen.shape[2]
    row = ((thread * images.seen.shape[1] + camera) * num_strips + strip) % scratch.depth.shape[0]
    depth = scratch.depth[row]
    hit = scratch.hit[row]
    if view.tilts:
        draw_tilted_strip(walls, primitives, scene.ceiling, view, eye, j0, j1, depth, hit)
    else:
        inverse = scratch.inverse[row]
        ground = scratch.ground[row]
        near_wall = scratch.near_wall[row]
        horizon = prepare_rows(view, eye, scene.ceiling, inverse, ground)
        farthest = draw_walls(walls, view, eye, horizon, j0, j1, ground, near_wall, depth, hit)
        draw_primitives(
            primitives, view, eye, horizon, farthest, j0, j1, inverse, near_wall, depth, hit
        )
    first = j0 * view.cameras + camera
    step = view.cameras
    if scene.mirrored[n]:
        first = (view.width - 1 - j0) * view.cameras + camera
        step = -view.cameras
    images.seen[n, camera, strip] = label_strip(
        primitives,
        view,
        scene.goal_class[n],
        first,
        step,
        j0,
        j1,
        depth,
        hit,
        images.depth[n],
        images.labels[n],
        images.goal_mask[n],
    )
    if view.wants_rgb:
        h = scene.slot[n]
        colour_strip(
            primitives,
            scene.colours[h],
            scene.paints[h],
            scene.room_of[h],
            scene.cells_per_m,
            scene.light[h],
            view,
            eye,
            first,
            step,
            j0,
            j1,
            depth,
            hit,
            images.rgb[n],
        )
