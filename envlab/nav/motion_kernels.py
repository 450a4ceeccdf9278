"""Warp kernels of motion and distance: one source for CPU and CUDA."""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

SUBSTEPS = wp.constant(3)
"""Of a move, each shorter than the agent's radius, so that no wall is passed."""
PUSHES = wp.constant(4)
"""Rounds in which everything pushes an agent out."""
FAR = wp.constant(50.0)
"""In m: farther than any way in a house."""


@wp.func
def push(
    p: wp.vec2, cx: float, cy: float, half_x: float, half_y: float, is_round: bool, radius: float
) -> wp.vec2:
    """Return a disc's centre, moved out of a rectangle or circle by the shortest way."""
    dx = p[0] - cx
    dy = p[1] - cy
    clear = radius
    qx = dx
    qy = dy
    if is_round:
        clear = radius + half_x
    else:
        qx = dx - wp.clamp(dx, -half_x, half_x)
        qy = dy - wp.clamp(dy, -half_y, half_y)
    squared = qx * qx + qy * qy
    if squared >= clear * clear:
        return p
    if squared > 1.0e-10:
        scale = clear / wp.sqrt(squared) - 1.0
        return wp.vec2(p[0] + qx * scale, p[1] + qy * scale)
    if half_x - wp.abs(dx) < half_y - wp.abs(dy):
        return wp.vec2(cx + wp.sign(dx) * (half_x + radius), p[1])
    return wp.vec2(p[0], cy + wp.sign(dy) * (half_y + radius))


@wp.func
def push_out(
    walls: wp.array3d(dtype=float),
    primitives: wp.array3d(dtype=float),
    h: int,
    radius: float,
    height: float,
    wanted: wp.vec2,
) -> wp.vec3:
    """Return a disc's centre clear of everything, and how far the last round still moved it."""
    q = wanted
    before = q
    for _ in range(PUSHES):
        before = q
        for k in range(walls.shape[1]):
            if walls[h, k, 2] < 0.0:
                break
            q = push(
                q, walls[h, k, 0], walls[h, k, 1], walls[h, k, 2], walls[h, k, 3], False, radius
            )
        for k in range(primitives.shape[1]):
            half_x = primitives[h, k, 2]
            if half_x < 0.0:
                break
            if primitives[h, k, 4] < height:
                q = push(
                    q,
                    primitives[h, k, 0],
                    primitives[h, k, 1],
                    half_x,
                    primitives[h, k, 3],
                    primitives[h, k, 6] > 0.5,
                    radius,
                )
    return wp.vec3(q[0], q[1], wp.length(q - before))


@wp.kernel
def move(
    walls: wp.array3d(dtype=float),
    primitives: wp.array3d(dtype=float),
    slot: wp.array(dtype=wp.int32),
    length: wp.array(dtype=float),
    radius: float,
    height: float,
    slides: bool,
    pose: wp.array2d(dtype=float),
    moved: wp.array(dtype=float),
):
    """Move agents ahead; what is in the way is slid along, or stops the move.

    Args:
        walls: Of the houses, ``(num_slots, MAX_WALLS, 4)``.
        primitives: ``(num_slots, MAX_PRIMITIVES, 8)``.
        slot: House of each environment, ``(num_envs,)``.
        length: How far to move, in m, ``(num_envs,)``.
        radius: Of the agents, in m.
        height: What begins above it is walked under, in m.
        slides: Whether agents slide along what is in the way.
        pose: x, y, height of the camera, yaw and tangent of the pitch, ``(num_envs, 5)``; updated.
        moved: How far agents came, in m, ``(num_envs,)``; written.
    """
    n = wp.tid()
    moved[n] = 0.0
    if length[n] <= 0.0:
        return
    start = wp.vec2(pose[n, 0], pose[n, 1])
    delta = wp.vec2(wp.cos(pose[n, 3]), wp.sin(pose[n, 3])) * (length[n] / float(SUBSTEPS))
    p = start
    for _ in range(SUBSTEPS):
        wanted = p + delta
        out = push_out(walls, primitives, slot[n], radius, height, wanted)
        q = wp.vec2(out[0], out[1])
        # A corner may push to and fro without an end, or far away: then the agent stays.
        fits = out[2] < 1.0e-4 and wp.length(q - p) < 2.0 * wp.length(delta)
        if fits and (slides or wp.length(q - wanted) < 1.0e-4):
            p = q
    pose[n, 0] = p[0]
    pose[n, 1] = p[1]
    moved[n] = wp.length(p - start)


@wp.kernel
def measure(
    fields: wp.array4d(dtype=wp.int16),
    cell: float,
    slot: wp.array(dtype=wp.int32),
    goal: wp.array(dtype=wp.int32),
    points: wp.array3d(dtype=float),
    distance: wp.array2d(dtype=float),
):
    """Measure geodesic distances to goals, by the best of the four cells around a point.

    Args:
        fields: Distances in mm, ``(num_slots, NUM_GOALS, *GRID)``.
        cell: Side of a cell, in m.
        slot: House of each environment, ``(num_envs,)``.
        goal: Goal of each environment, ``(num_envs,)``.
        points: x and y, in m, ``(num_envs, num_points, >= 2)``.
        distance: In m, ``(num_envs, num_points)``; written.
    """
    n, k = wp.tid()
    x = points[n, k, 0]
    y = points[n, k, 1]
    column = int(wp.floor(x / cell - 0.5))
    row = int(wp.floor(y / cell - 0.5))
    best = FAR
    for corner in range(4):
        j = wp.clamp(column + corner % 2, 0, fields.shape[3] - 1)
        i = wp.clamp(row + corner / 2, 0, fields.shape[2] - 1)
        value = float(fields[slot[n], goal[n], i, j]) * 0.001
        if value > 0.0:
            dx = (float(j) + 0.5) * cell - x
            dy = (float(i) + 0.5) * cell - y
            value = value + wp.sqrt(dx * dx + dy * dy)
        best = wp.min(best, value)
    distance[n, k] = best


@wp.kernel
def sweep(
    free: wp.array2d(dtype=wp.uint8),
    cell: float,
    max_sweeps: int,
    distance: wp.array3d(dtype=float),
):
    """Solve the eikonal equation of unit speed over free cells, a thread for each goal.

    Args:
        free: Cells that can be walked on, ``GRID``.
        cell: Side of a cell, in m.
        max_sweeps: Rounds of four sweeps; fewer where nothing changes any more.
        distance: ``(num_goals, *GRID)``, 0 at goals and ``FAR`` elsewhere; updated.
    """
    m = wp.tid()
    ny = free.shape[0]
    nx = free.shape[1]
    for _ in range(max_sweeps):
        changed = int(0)
        for direction in range(4):
            for ii in range(ny):
                i = ii
                if direction >= 2:
                    i = ny - 1 - ii
                for jj in range(nx):
                    j = jj
                    if direction % 2 == 1:
                        j = nx - 1 - jj
                    if free[i, j] != wp.uint8(0) and distance[m, i, j] > 0.0:
                        a = FAR
                        b = FAR
                        if j > 0:
                            a = distance[m, i, j - 1]
                        if j < nx - 1:
                            a = wp.min(a, distance[m, i, j + 1])
                        if i > 0:
                            b = distance[m, i - 1, j]
                        if i < ny - 1:
                            b = wp.min(b, distance[m, i + 1, j])
                        d = wp.min(a, b) + cell
                        if wp.abs(a - b) < cell:
                            d = 0.5 * (a + b + wp.sqrt(2.0 * cell * cell - (a - b) * (a - b)))
                        if d < distance[m, i, j] - 1.0e-5:
                            distance[m, i, j] = d
                            changed = int(1)
        if changed == 0:
            break


@wp.kernel
def draw_start(
    free: wp.array3d(dtype=wp.bool),
    fields: wp.array4d(dtype=wp.int16),
    cell: float,
    slot: wp.array(dtype=wp.int32),
    goal: wp.array(dtype=wp.int32),
    mask: wp.array(dtype=wp.bool),
    bits: wp.array(dtype=wp.int32),
    nearest: int,
    farthest: int,
    pose: wp.array2d(dtype=float),
):
    """Put agents on a free cell whose distance to their goal lies in a range, drawn uniformly.

    Cells are drawn until one fits; after many in vain, the first that follows is taken.

    Args:
        free: Cells that can be walked on, ``(num_slots, *GRID)``.
        fields: Distances in mm, ``(num_slots, NUM_GOALS, *GRID)``.
        cell: Side of a cell, in m.
        slot: House of each environment, ``(num_envs,)``.
        goal: Goal of each environment, ``(num_envs,)``.
        mask: Environments to draw for, ``(num_envs,)``.
        bits: Random bits of each environment, ``(num_envs,)``.
        nearest: Least distance, in mm.
        farthest: Largest distance, in mm.
        pose: Its x and y are written, ``(num_envs, 5)``.
    """
    n = wp.tid()
    if not mask[n]:
        return
    h = slot[n]
    nx = free.shape[2]
    num_cells = free.shape[1] * nx
    state = wp.rand_init(bits[n])
    at = int(0)
    for tried in range(256 + num_cells):
        if tried < 256:
            at = wp.min(int(wp.randf(state) * float(num_cells)), num_cells - 1)
        else:
            at = (at + 1) % num_cells
        i = at / nx
        j = at % nx
        distance = int(fields[h, goal[n], i, j])
        if free[h, i, j] and distance >= nearest and distance <= farthest:
            break
    pose[n, 0] = (float(at % nx) + 0.5) * cell
    pose[n, 1] = (float(at / nx) + 0.5) * cell
