"""Warp functions that find what each pixel of a picture shows, on a CPU: a depth and a geom.

Triangles of the height field go into a z-buffer, as do shapes, with a ray for each pixel of the
rectangle around them. For height fields that takes a tenth of the time of rays alone: neighbouring
cells share their corners, and a comparison skips those out of sight. The z-buffer holds 1 / depth,
which is linear over a triangle's pixels. A triangle is drawn on the pixels whose rays pass on the
inner side of its three edges, that is, exactly where rays meet it.
"""

from __future__ import annotations

import warp as wp

from envlab.sim._picture_shapes import (
    MESH,
    PLANE,
    Eye,
    Ground,
    Poses,
    Shapes,
    View,
    half_sizes,
    meet_shape,
    seen_from,
)

wp.set_module_options({"enable_backward": False})

LEFT, RIGHT, ABOVE, BELOW, NEARER, FARTHER = (wp.constant(1 << bit) for bit in range(6))
"""Sides of a camera's view, of which a point may be on the outer one."""


@wp.func
def outside(p: wp.vec3, low: wp.vec2, high: wp.vec2, near: float, far: float) -> int:
    """Return the sides on which a point is out of sight; between points outside one, all are.

    Args:
        p: The point.
        low: x and y of the first pixels at depth 1.
        high: The same of the last pixels.
        near: Nearest depth.
        far: Farthest depth.
    """
    code = int(0)
    if p[0] < low[0] * p[2]:
        code = code | LEFT
    if p[0] > high[0] * p[2]:
        code = code | RIGHT
    if p[1] < low[1] * p[2]:
        code = code | ABOVE
    if p[1] > high[1] * p[2]:
        code = code | BELOW
    if p[2] < near:
        code = code | NEARER
    if p[2] > far:
        code = code | FARTHER
    return code


@wp.func
def fill_triangle(
    frame: wp.array2d(dtype=float),
    i0: int,
    i1: int,
    j0: int,
    j1: int,
    x0: float,
    dx: float,
    y0: float,
    dy: float,
    e0: wp.vec3,
    e1: wp.vec3,
    e2: wp.vec3,
    plane: wp.vec3,
    nearest: float,
) -> None:
    """Draw a triangle on the pixels of a rectangle.

    Args:
        frame: The z-buffer, 1 / depth.
        i0: First row.
        i1: Last row.
        j0: First column.
        j1: Last column.
        x0: See :class:`Eye`.
        dx: See :class:`Eye`.
        y0: See :class:`Eye`.
        dy: See :class:`Eye`.
        e0: An edge: its product with a ray is not negative on the inner side.
        e1: Another.
        e2: The third.
        plane: Its product with a ray is 1 / depth.
        nearest: Largest value of 1 / depth.
    """
    for i in range(i0, i1 + 1):
        y = y0 + float(i) * dy
        b0 = e0[1] * y + e0[2]
        b1 = e1[1] * y + e1[2]
        b2 = e2[1] * y + e2[2]
        b = plane[1] * y + plane[2]
        row = frame[i]
        j = int(j0)
        while j <= j1:
            x = x0 + float(j) * dx
            inner = wp.min(wp.min(e0[0] * x + b0, e1[0] * x + b1), e2[0] * x + b2)
            w = plane[0] * x + b
            if inner >= 0.0 and w > row[j] and w <= nearest:
                row[j] = w
            j += 1


@wp.func
def ground_in_sight(view: View, ground: Ground, eye: Eye, high: wp.vec2) -> wp.vec4i:
    """Return the first and last column, then row, of the height field that can be in sight.

    They lie between the camera and the far ends of its outermost rays.
    """
    x_low = eye.position[0]
    x_high = eye.position[0]
    y_low = eye.position[1]
    y_high = eye.position[1]
    for corner in range(4):
        x = wp.where(corner % 2 == 0, eye.x0, high[0])
        y = wp.where(corner < 2, eye.y0, high[1])
        end = eye.position + eye.rotation * wp.vec3(x * view.far, y * view.far, view.far)
        x_low = wp.min(x_low, end[0])
        x_high = wp.max(x_high, end[0])
        y_low = wp.min(y_low, end[1])
        y_high = wp.max(y_high, end[1])
    last_row = ground.heights.shape[0] - 1
    last_column = ground.heights.shape[1] - 1
    return wp.vec4i(
        wp.clamp(int(wp.floor((x_low - ground.x) / ground.dx)), 0, last_column),
        wp.clamp(int(wp.ceil((x_high - ground.x) / ground.dx)), 0, last_column),
        wp.clamp(int(wp.floor((y_low - ground.y) / ground.dy)), 0, last_row),
        wp.clamp(int(wp.ceil((y_high - ground.y) / ground.dy)), 0, last_row),
    )


@wp.func
def draw_cell(
    view: View,
    ground: Ground,
    eye: Eye,
    along_x: wp.vec3,
    along_y: wp.vec3,
    upward: wp.vec3,
    c: int,
    r: int,
    points: wp.array2d(dtype=wp.vec3),
    pixels: wp.array2d(dtype=wp.vec2),
    k: int,
    new: int,
    frame: wp.array2d(dtype=float),
) -> None:
    """Draw the two triangles of a cell of the height field.

    Args:
        view: The camera.
        ground: The height field.
        eye: The camera in the world.
        along_x: The world's x axis in the camera's frame.
        along_y: Its y axis.
        upward: Its z axis.
        c: The cell's first column.
        r: Its last row.
        points: Corners of its two rows, in the camera's frame.
        pixels: Their columns and rows in the image.
        k: The cell's place in these rows.
        new: Which of the rows is ``r``.
        frame: The z-buffer; updated.
    """
    old = 1 - new
    heights = ground.heights[r]
    below = ground.heights[r - 1]
    p00 = points[old, k]
    p10 = points[old, k + 1]
    p01 = points[new, k]
    p11 = points[new, k + 1]
    q00 = pixels[old, k]
    q11 = pixels[new, k + 1]
    crosses = wp.min(wp.min(p00[2], p10[2]), wp.min(p01[2], p11[2])) < 1.0e-3
    i_low = wp.min(q00[1], q11[1])
    i_high = wp.max(q00[1], q11[1])
    j_low = wp.min(q00[0], q11[0])
    j_high = wp.max(q00[0], q11[0])
    nearest = 1.0 / wp.max(view.near, 1.0e-6)
    # Corners in one order for both triangles of an edge, so that no ray slips between.
    diagonal = wp.cross(p00, p11)
    for half in range(2):
        i0 = int(0)
        i1 = view.height - 1
        j0 = int(0)
        j1 = view.width - 1
        if not crosses:
            q = wp.where(half == 0, pixels[old, k + 1], pixels[new, k])
            i0 = wp.max(i0, int(wp.ceil(wp.min(i_low, q[1]) - 1.0e-3)))
            i1 = wp.min(i1, int(wp.floor(wp.max(i_high, q[1]) + 1.0e-3)))
            j0 = wp.max(j0, int(wp.ceil(wp.min(j_low, q[0]) - 1.0e-3)))
            j1 = wp.min(j1, int(wp.floor(wp.max(j_high, q[0]) + 1.0e-3)))
            if i0 > i1 or j0 > j1:
                continue
        rise_x = below[c + 1] - below[c]
        rise_y = heights[c + 1] - below[c + 1]
        if half == 1:
            rise_x = heights[c + 1] - heights[c]
            rise_y = heights[c] - below[c]
        normal = upward - (rise_x / ground.dx) * along_x - (rise_y / ground.dy) * along_y
        offset = wp.dot(normal, p00)
        if wp.abs(offset) < 1.0e-9:
            continue
        sign = wp.sign(offset)
        if half == 0:
            fill_triangle(
                frame, i0, i1, j0, j1, eye.x0, eye.dx, eye.y0, eye.dy,
                sign * wp.cross(p00, p10), sign * wp.cross(p10, p11), -sign * diagonal,
                normal / offset, nearest,
            )  # fmt: skip
        else:
            fill_triangle(
                frame, i0, i1, j0, j1, eye.x0, eye.dx, eye.y0, eye.dy,
                sign * diagonal, -sign * wp.cross(p01, p11), -sign * wp.cross(p00, p01),
                normal / offset, nearest,
            )  # fmt: skip


@wp.func
def draw_ground(
    view: View,
    ground: Ground,
    eye: Eye,
    points: wp.array2d(dtype=wp.vec3),
    pixels: wp.array2d(dtype=wp.vec2),
    codes: wp.array2d(dtype=int),
    frame: wp.array2d(dtype=float),
) -> None:
    """Draw the height field, row by row.

    Args:
        view: The camera.
        ground: The height field.
        eye: The camera in the world.
        points: Buffer for two rows of corners, in the camera's frame.
        pixels: Buffer for their columns and rows in the image.
        codes: Buffer for the sides on which they are out of sight.
        frame: The z-buffer; updated.
    """
    low = wp.vec2(eye.x0, eye.y0)
    high = wp.vec2(
        eye.x0 + float(view.width - 1) * eye.dx, eye.y0 + float(view.height - 1) * eye.dy
    )
    part = ground_in_sight(view, ground, eye, high)
    c0 = part[0]
    c1 = wp.min(part[1], c0 + points.shape[1] - 1)
    r0 = part[2]
    across = wp.transpose(eye.rotation)
    along_x = wp.vec3(across[0, 0], across[1, 0], across[2, 0])
    along_y = wp.vec3(across[0, 1], across[1, 1], across[2, 1])
    upward = wp.vec3(across[0, 2], across[1, 2], across[2, 2])
    first = across * (
        wp.vec3(ground.x + float(c0) * ground.dx, ground.y + float(r0) * ground.dy, 0.0)
        - eye.position
    )
    for r in range(r0, part[3] + 1):
        heights = ground.heights[r]
        new = (r - r0) % 2
        old = 1 - new
        start = first + (float(r - r0) * ground.dy) * along_y
        for c in range(c0, c1 + 1):
            k = c - c0
            p = start + (float(k) * ground.dx) * along_x + heights[c] * upward
            points[new, k] = p
            codes[new, k] = outside(p, low, high, view.near, view.far)
            inverse = 1.0 / wp.max(p[2], 1.0e-3)
            pixels[new, k] = wp.vec2(
                (p[0] * inverse - low[0]) / eye.dx, (p[1] * inverse - low[1]) / eye.dy
            )
        if r == r0:
            continue
        for c in range(c0, c1):
            k = c - c0
            if codes[old, k] & codes[old, k + 1] & codes[new, k] & codes[new, k + 1] == 0:
                draw_cell(
                    view, ground, eye, along_x, along_y, upward, c, r, points, pixels, k, new, frame
                )


@wp.func
def covered_pixels(view: View, back: Eye, centre: wp.vec3, half: wp.vec3) -> wp.vec4i:
    """Return the first and last row, and the first and last column, that a box may cover.

    Args:
        view: The camera.
        back: The camera in the box's frame.
        centre: The box's centre.
        half: Half its sizes.
    """
    none = wp.vec4i(1, 0, 1, 0)
    low = wp.vec2(back.x0, back.y0)
    high = wp.vec2(
        back.x0 + float(view.width - 1) * back.dx, back.y0 + float(view.height - 1) * back.dy
    )
    apex = centre - back.position
    into = wp.transpose(back.rotation)
    middle = into * apex
    # Boxes that the visible part of space does not reach, seen along their own axes.
    bottom = -apex
    top = -apex
    for corner in range(4):
        x = wp.where(corner % 2 == 0, low[0], high[0])
        y = wp.where(corner < 2, low[1], high[1])
        end = back.rotation * wp.vec3(x * view.far, y * view.far, view.far) - apex
        bottom = wp.min(bottom, end)
        top = wp.max(top, end)
    for axis in range(3):
        if bottom[axis] > half[axis] or top[axis] < -half[axis]:
            return none
    common = int(63)
    crosses = bool(False)
    i_low = float(1.0e9)
    i_high = float(-1.0e9)
    j_low = float(1.0e9)
    j_high = float(-1.0e9)
    for corner in range(8):
        x = wp.where(corner % 2 == 0, half[0], -half[0])
        y = wp.where((corner // 2) % 2 == 0, half[1], -half[1])
        z = wp.where(corner < 4, half[2], -half[2])
        p = middle + into * wp.vec3(x, y, z)
        common = common & outside(p, low, high, view.near, view.far)
        crosses = crosses or p[2] < 1.0e-3
        inverse = 1.0 / wp.max(p[2], 1.0e-3)
        i = (p[1] * inverse - low[1]) / back.dy
        j = (p[0] * inverse - low[0]) / back.dx
        i_low = wp.min(i_low, i)
        i_high = wp.max(i_high, i)
        j_low = wp.min(j_low, j)
        j_high = wp.max(j_high, j)
    if common != 0:
        return none
    if crosses:
        return wp.vec4i(0, view.height - 1, 0, view.width - 1)
    return wp.vec4i(
        wp.max(0, int(wp.ceil(i_low - 1.0e-3))),
        wp.min(view.height - 1, int(wp.floor(i_high + 1.0e-3))),
        wp.max(0, int(wp.ceil(j_low - 1.0e-3))),
        wp.min(view.width - 1, int(wp.floor(j_high + 1.0e-3))),
    )


@wp.func
def draw_shape(
    geom: int,
    kind: int,
    size: wp.vec3,
    mesh: wp.uint64,
    near: float,
    back: Eye,
    covered: wp.vec4i,
    frame: wp.array2d(dtype=float),
    ids: wp.array2d(dtype=int),
) -> None:
    """Draw a shape on the pixels of a rectangle, with a ray for each."""
    across = wp.vec3(back.rotation[0, 0], back.rotation[1, 0], back.rotation[2, 0])
    for i in range(covered[0], covered[1] + 1):
        row = frame[i]
        shown = ids[i]
        start = back.rotation * wp.vec3(0.0, back.y0 + float(i) * back.dy, 1.0)
        for j in range(covered[2], covered[3] + 1):
            d = start + (back.x0 + float(j) * back.dx) * across
            t = meet_shape(kind, size, mesh, back.position, d)
            if t >= near and t * row[j] < 1.0:
                row[j] = 1.0 / t
                shown[j] = geom


@wp.func
def draw_shapes(
    view: View,
    shapes: Shapes,
    poses: Poses,
    eye: Eye,
    n: int,
    frame: wp.array2d(dtype=float),
    ids: wp.array2d(dtype=int),
) -> None:
    """Draw all shapes."""
    for k in range(shapes.visible.shape[0]):
        geom = shapes.visible[k]
        kind = shapes.kind[n % shapes.kind.shape[0], geom]
        size = shapes.size[n % shapes.size.shape[0], geom]
        centre = wp.vec3(0.0, 0.0, 0.0)
        half = half_sizes(kind, size)
        mesh_id = wp.uint64(0)
        if kind == MESH:
            mesh = shapes.mesh[n % shapes.mesh.shape[0], geom]
            mesh_id = shapes.mesh_id[mesh]
            centre = shapes.centre[mesh]
            half = shapes.half[mesh]
        back = seen_from(eye, poses.geom_xpos[n, geom], poses.geom_xmat[n, geom])
        covered = wp.vec4i(0, view.height - 1, 0, view.width - 1)
        if kind != PLANE:
            covered = covered_pixels(view, back, centre, half)
        if covered[0] <= covered[1] and covered[2] <= covered[3]:
            draw_shape(geom, kind, size, mesh_id, view.near, back, covered, frame, ids)


@wp.func
def find_visible(
    view: View,
    ground: Ground,
    shapes: Shapes,
    poses: Poses,
    eye: Eye,
    n: int,
    points: wp.array2d(dtype=wp.vec3),
    pixels: wp.array2d(dtype=wp.vec2),
    codes: wp.array2d(dtype=int),
    frame: wp.array2d(dtype=float),
    ids: wp.array2d(dtype=int),
) -> None:
    """Fill the z-buffer (1 / depth) and the geoms that it shows, -1 where no geom is seen."""
    farthest = 1.0 / view.far
    for i in range(view.height):
        row = frame[i]
        for j in range(view.width):
            row[j] = farthest
    if ground.heights.shape[0] > 0:
        draw_ground(view, ground, eye, points, pixels, codes, frame)
    for i in range(view.height):
        row = frame[i]
        shown = ids[i]
        for j in range(view.width):
            shown[j] = wp.where(row[j] > farthest, ground.geom, -1)
    draw_shapes(view, shapes, poses, eye, n, frame, ids)
