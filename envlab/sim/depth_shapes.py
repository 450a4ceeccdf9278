"""Warp functions: where rays meet MuJoCo's shapes, as in ``mj_ray``, on all devices.

Rays start at ``o`` and run along ``d``, in the shape's own frame. Distances are in units of the
length of ``d``; the nearest that is at least ``near`` counts, and -1 is a miss. A ray that starts
within a shape meets it from the inside.
"""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX = (
    wp.constant(kind) for kind in (0, 2, 3, 4, 5, 6)
)
"""MuJoCo's ``mjtGeom`` of the supported shapes."""


@wp.func
def nearer(best: float, t: float, near: float) -> float:
    """Return the nearer of two distances, ignoring those below ``near``."""
    if t >= near and (best < 0.0 or t < best):
        return t
    return best


@wp.func
def meet_ball(o: wp.vec3, d: wp.vec3, radius: float, near: float) -> float:
    """Meet a sphere around the origin."""
    a = wp.dot(d, d)
    b = wp.dot(o, d)
    square = b * b - a * (wp.dot(o, o) - radius * radius)
    if square < 0.0:
        return -1.0
    root = wp.sqrt(square)
    return nearer(nearer(-1.0, (-b - root) / a, near), (root - b) / a, near)


@wp.func
def meet_end(o: wp.vec3, d: wp.vec3, radius: float, half: float, sign: float, near: float) -> float:
    """Meet the half of a sphere that closes a capsule at ``sign`` times ``half`` along z."""
    p = wp.vec3(o[0], o[1], o[2] - sign * half)
    a = wp.dot(d, d)
    b = wp.dot(p, d)
    square = b * b - a * (wp.dot(p, p) - radius * radius)
    best = float(-1.0)
    if square >= 0.0:
        root = wp.sqrt(square)
        first = (-b - root) / a
        second = (root - b) / a
        if sign * (p[2] + first * d[2]) >= 0.0:
            best = nearer(best, first, near)
        if sign * (p[2] + second * d[2]) >= 0.0:
            best = nearer(best, second, near)
    return best


@wp.func
def meet_side(o: wp.vec3, d: wp.vec3, radius: float, half: float, near: float) -> float:
    """Meet the side of a cylinder along z."""
    a = d[0] * d[0] + d[1] * d[1]
    b = o[0] * d[0] + o[1] * d[1]
    square = b * b - a * (o[0] * o[0] + o[1] * o[1] - radius * radius)
    best = float(-1.0)
    if square >= 0.0 and a > 0.0:
        root = wp.sqrt(square)
        first = (-b - root) / a
        second = (root - b) / a
        if wp.abs(o[2] + first * d[2]) <= half:
            best = nearer(best, first, near)
        if wp.abs(o[2] + second * d[2]) <= half:
            best = nearer(best, second, near)
    return best


@wp.func
def meet_lid(o: wp.vec3, d: wp.vec3, radius: float, height: float, near: float) -> float:
    """Meet a disc at a height along z."""
    t = (height - o[2]) / d[2]
    x = o[0] + t * d[0]
    y = o[1] + t * d[1]
    if x * x + y * y <= radius * radius:
        return nearer(-1.0, t, near)
    return -1.0


@wp.func
def meet_box(o: wp.vec3, d: wp.vec3, half: wp.vec3, near: float) -> float:
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
    if enter > leave:
        return -1.0
    return nearer(nearer(-1.0, enter, near), leave, near)


@wp.func
def meet_plane(o: wp.vec3, d: wp.vec3, half: wp.vec3, near: float) -> float:
    """Meet a plane from above; half sizes of 0 are infinite."""
    if d[2] >= 0.0:
        return -1.0
    t = -o[2] / d[2]
    x = wp.abs(o[0] + t * d[0])
    y = wp.abs(o[1] + t * d[1])
    if (half[0] > 0.0 and x > half[0]) or (half[1] > 0.0 and y > half[1]):
        return -1.0
    return nearer(-1.0, t, near)


@wp.func
def meet_shape(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3, near: float) -> float:
    """Meet a shape of MuJoCo's size."""
    best = float(-1.0)
    if kind == BOX:
        best = meet_box(o, d, size, near)
    elif kind == SPHERE:
        best = meet_ball(o, d, size[0], near)
    elif kind == CAPSULE:
        best = meet_side(o, d, size[0], size[1], near)
        best = nearer(best, meet_end(o, d, size[0], size[1], 1.0, near), near)
        best = nearer(best, meet_end(o, d, size[0], size[1], -1.0, near), near)
    elif kind == CYLINDER:
        best = meet_side(o, d, size[0], size[1], near)
        if wp.abs(d[2]) > 1.0e-12:
            best = nearer(best, meet_lid(o, d, size[0], size[1], near), near)
            best = nearer(best, meet_lid(o, d, size[0], -size[1], near), near)
    elif kind == ELLIPSOID:
        best = meet_ball(wp.cw_div(o, size), wp.cw_div(d, size), 1.0, near)
    elif kind == PLANE:
        best = meet_plane(o, d, size, near)
    return best
