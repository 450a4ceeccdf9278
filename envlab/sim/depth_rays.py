"""Warp kernel that draws depth images on a GPU: a ray for every pixel, from cell to cell.

Rays meet the same triangles and shapes as in :mod:`envlab.sim.depth_raster`.
"""

from __future__ import annotations

import warp as wp

from envlab.sim.depth_scene import Ground, Shapes, View, camera_pose, shape_pose
from envlab.sim.depth_shapes import meet_shape

wp.set_module_options({"enable_backward": False})


@wp.func
def meet_cell(
    ground: Ground, r: int, c: int, o: wp.vec3, d: wp.vec3, near: float, best: float
) -> float:
    """Return the distance at which a ray meets a cell's two triangles, if less than ``best``."""
    h00 = ground.heights[r, c]
    h10 = ground.heights[r, c + 1]
    h01 = ground.heights[r + 1, c]
    h11 = ground.heights[r + 1, c + 1]
    x = o[0] - (ground.x + float(c) * ground.dx)
    y = o[1] - (ground.y + float(r) * ground.dy)
    found = float(best)
    for half in range(2):
        slope_x = wp.where(half == 0, h10 - h00, h11 - h01) / ground.dx
        slope_y = wp.where(half == 0, h11 - h10, h01 - h00) / ground.dy
        speed = d[2] - slope_x * d[0] - slope_y * d[1]
        if wp.abs(speed) > 1.0e-12:
            t = -(o[2] - h00 - slope_x * x - slope_y * y) / speed
            u = (x + t * d[0]) / ground.dx
            v = (y + t * d[1]) / ground.dy
            over = wp.where(half == 0, u - v, v - u)
            room = 1.0e-4
            inner = wp.min(wp.min(u, v), wp.min(1.0 - u, 1.0 - v))
            if wp.min(inner, over) >= -room and t >= near and t < found:
                found = t
    return found


@wp.func
def march(ground: Ground, o: wp.vec3, d: wp.vec3, near: float, far: float) -> float:
    """Return the distance at which a ray meets the height field, ``far`` if it does not."""
    u = (o[0] - ground.x) / ground.dx
    v = (o[1] - ground.y) / ground.dy
    du = d[0] / ground.dx
    dv = d[1] / ground.dy
    enter = near
    leave = far
    last_column = ground.heights.shape[1] - 1
    last_row = ground.heights.shape[0] - 1
    if wp.abs(du) > 1.0e-9:
        a = -u / du
        b = (float(last_column) - u) / du
        enter = wp.max(enter, wp.min(a, b))
        leave = wp.min(leave, wp.max(a, b))
    elif u < 0.0 or u > float(last_column):
        return far
    if wp.abs(dv) > 1.0e-9:
        a = -v / dv
        b = (float(last_row) - v) / dv
        enter = wp.max(enter, wp.min(a, b))
        leave = wp.min(leave, wp.max(a, b))
    elif v < 0.0 or v > float(last_row):
        return far
    if enter > leave:
        return far
    c = wp.clamp(int(wp.floor(u + enter * du)), 0, last_column - 1)
    r = wp.clamp(int(wp.floor(v + enter * dv)), 0, last_row - 1)
    step_c = wp.where(du > 0.0, 1, -1)
    step_r = wp.where(dv > 0.0, 1, -1)
    next_c = float(1.0e30)
    next_r = float(1.0e30)
    width_c = float(1.0e30)
    width_r = float(1.0e30)
    if wp.abs(du) > 1.0e-9:
        width_c = 1.0 / wp.abs(du)
        next_c = (float(c + wp.where(du > 0.0, 1, 0)) - u) / du
    if wp.abs(dv) > 1.0e-9:
        width_r = 1.0 / wp.abs(dv)
        next_r = (float(r + wp.where(dv > 0.0, 1, 0)) - v) / dv
    t = float(enter)
    while t <= leave:
        out = wp.min(wp.min(next_c, next_r), leave)
        z0 = o[2] + t * d[2]
        z1 = o[2] + out * d[2]
        h00 = ground.heights[r, c]
        h10 = ground.heights[r, c + 1]
        h01 = ground.heights[r + 1, c]
        h11 = ground.heights[r + 1, c + 1]
        top = wp.max(wp.max(h00, h10), wp.max(h01, h11))
        bottom = wp.min(wp.min(h00, h10), wp.min(h01, h11))
        if wp.min(z0, z1) <= top + 1.0e-4 and wp.max(z0, z1) >= bottom - 1.0e-4:
            found = meet_cell(ground, r, c, o, d, near, far)
            if found < far:
                return found
        if next_c < next_r:
            t = next_c
            next_c += width_c
            c += step_c
            if c < 0 or c >= last_column:
                return far
        else:
            t = next_r
            next_r += width_r
            r += step_r
            if r < 0 or r >= last_row:
                return far
    return far


@wp.kernel
def cast_rays(
    view: View,
    ground: Ground,
    shapes: Shapes,
    xpos: wp.array3d(dtype=float),
    xquat: wp.array3d(dtype=float),
    wanted: wp.array(dtype=wp.bool),
    slot: wp.array(dtype=int),
    frames: wp.array4d(dtype=float),
) -> None:
    """Draw one pixel of an environment's image, like :func:`draw_frames` the whole image."""
    n, i, j = wp.tid()
    if not wanted[n]:
        return
    eye = camera_pose(view, xpos[n], xquat[n])
    ray = wp.vec3(view.x0 + float(j) * view.dx, view.y0 + float(i) * view.dy, 1.0)
    best = view.far
    if ground.heights.shape[0] > 0:
        best = march(ground, eye.position, eye.rotation * ray, view.near, best)
    for k in range(shapes.kind.shape[0]):
        back = shape_pose(shapes, k, eye, xpos[n], xquat[n])
        t = meet_shape(
            shapes.kind[k], shapes.size[k], back.position, back.rotation * ray, view.near
        )
        if t > 0.0 and t < best:
            best = t
    frames[n, slot[n], i, j] = wp.where(best < view.far, best, wp.inf)
