"""Warp kernels that give pixels their colours and labels: textures, paints and light.

What a pixel shows was drawn by :mod:`envlab.nav.camera_kernels`. Colours are those of a matt
surface: its paint, its pattern, and a light of the house that weakens with the distance.
"""

from __future__ import annotations

import warp as wp

from envlab.nav.camera_kernels import (
    BALL,
    BOTTOM,
    FACE_X,
    FACE_Y,
    FLOOR,
    ROUND,
    TOP,
    WALL,
    Images,
    Paint,
    Primitive,
    Scene,
    Scratch,
    View,
    eye_of,
    ray_of,
)

wp.set_module_options({"enable_backward": False})


@wp.func
def hashed(x: int, y: int) -> float:
    """Return a number in [0, 1] that varies from one pair to the next."""
    h = x * 374761393 + y * 668265263
    h = (h ^ (h >> 13)) * 1274126177
    return float((h ^ (h >> 16)) & 255) / 255.0


@wp.func
def patterned(kind: int, density: float, u: float, v: float) -> float:
    """Return the brightness of a tiled (0), planked (1) or plain (2) surface at a point of it.

    Args:
        kind: The pattern.
        density: Of tiles, per m.
        u: Along the surface, in m, not negative: so that truncating rounds down, which takes a
            fifth of the time of ``floor`` on a CPU.
        v: The other way along it.
    """
    if kind == 0:
        return 0.85 + 0.15 * float((int(u * density) + int(v * density)) & 1)
    if kind == 1:
        column = int(u * density * 2.5)
        return 0.8 + 0.2 * hashed(column, int(v * 0.9 + 0.37 * float(column)))
    return 0.9


@wp.func
def normal_of(face: int, ray: wp.vec3, from_middle: wp.vec3) -> wp.vec3:
    """Return the normal of what a ray meets; ``from_middle`` leads from its middle to the point."""
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
    """Return the way from a cylinder's axis, or a sphere's middle, to its surface, of length 1."""
    up = float(0.0)
    if face == BALL:
        up = point[2] - 0.5 * (shape[4] + shape[5])
    return wp.vec3(point[0] - shape[0], point[1] - shape[1], up) / shape[2]


@wp.func
def paint_at(
    paints: wp.array3d(dtype=Paint),
    room_of: wp.array3d(dtype=wp.uint8),
    cells_per_m: float,
    h: int,
    side: int,
    point: wp.vec3,
    ray: wp.vec3,
) -> Paint:
    """Return the paint of a floor (0), or of a wall (1): that of the room in front of it."""
    u = int((point[0] - 0.03 * ray[0]) * cells_per_m)
    v = int((point[1] - 0.03 * ray[1]) * cells_per_m)
    u = wp.clamp(u, 0, room_of.shape[2] - 1)
    v = wp.clamp(v, 0, room_of.shape[1] - 1)
    return paints[h, int(room_of[h, v, u]), side]


@wp.kernel
def paint(
    scene: Scene,
    view: View,
    wanted: wp.array(dtype=wp.bool),
    first_env: int,
    scratch: Scratch,
    images: Images,
):
    """Write the images of a strip that was drawn, and count the pixels of the goal's class."""
    thread, camera, strip = wp.tid()
    n = first_env + thread
    if not wanted[n]:
        return
    row = thread * scene.headings.shape[0] + camera
    h = scene.slot[n]
    eye = eye_of(scene, n, camera)
    lamp = scene.light[h]
    lamp_colour = wp.vec3(lamp[0], lamp[1], lamp[2])
    seen = int(0)
    for j in range(strip * view.strip, wp.min((strip + 1) * view.strip, view.width)):
        finish = Paint()
        finish_of = int(-1)  # the row that it was last looked up for; a wall's holds for a column
        for i in range(view.height):
            t = scratch.depth[row, j, i]
            surface = scratch.hit[row, j, i] >> 3
            label = surface + 4
            if surface >= 0:
                label = int(scene.primitives[h, surface][7])
            is_goal = int(0)
            if label == scene.goal_class[n]:
                is_goal = int(1)
            seen += is_goal
            if view.wants_depth:
                images.depth[n, i, j, camera] = t
            if view.wants_labels:
                images.labels[n, i, j, camera] = wp.uint8(label)
            if view.wants_mask:
                images.goal_mask[n, i, j, camera] = wp.uint8(is_goal)
            if view.wants_rgb:
                face = scratch.hit[row, j, i] & 7
                ray = ray_of(view, eye, i, j)
                point = wp.vec3(eye.x, eye.y, eye.z) + t * ray
                colour = wp.vec3(0.9, 0.9, 0.9)
                from_middle = wp.vec3(0.0, 0.0, 0.0)
                light = float(1.0)
                if surface >= 0:
                    colour = scene.colours[h, surface]
                    if face >= ROUND:
                        from_middle = middle_to(scene.primitives[h, surface], face, point)
                elif surface == FLOOR:
                    floor = paint_at(
                        scene.paints, scene.room_of, scene.cells_per_m, h, 0, point, ray
                    )
                    colour = wp.vec3(floor[0], floor[1], floor[2])
                    light = patterned(int(floor[3]), floor[4], point[0], point[1])
                elif surface == WALL:
                    if view.tilts or finish_of < 0:
                        finish_of = i
                        finish = paint_at(
                            scene.paints, scene.room_of, scene.cells_per_m, h, 1, point, ray
                        )
                    colour = wp.vec3(finish[0], finish[1], finish[2])
                    along = point[0]
                    if face == FACE_X:
                        along = point[1]
                    light = patterned(int(finish[3]), finish[4], along, point[2])
                    if point[2] < 0.1:  # a skirting board
                        light = float(0.45)
                normal = normal_of(face, ray, from_middle)
                lit = normal[0] * lamp[3] + normal[1] * lamp[4]
                light = light * (204.0 + 41.0 * lit + 46.0 * normal[2]) / (1.0 + lamp[5] * t * t)
                pixel = wp.cw_mul(colour, lamp_colour) * light
                pixel = wp.min(pixel, wp.vec3(255.0, 255.0, 255.0))
                images.rgb[n, i, j, camera] = wp.vec3ub(
                    wp.uint8(pixel[0]), wp.uint8(pixel[1]), wp.uint8(pixel[2])
                )
    images.seen[n, camera, strip] = seen
