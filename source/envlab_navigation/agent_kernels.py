"""Warp kernels of agents: effects of actions, starts of episodes, and observations.

One source for CPU and CUDA. Each is one launch for all environments: the same in torch operations
took two thirds of a step of 64 environments without images.
"""

from __future__ import annotations

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # Else it prints a line per kernel module.
wp.set_module_options({"enable_backward": False})

MOVE_AHEAD, ROTATE_LEFT, ROTATE_RIGHT, LOOK_UP, LOOK_DOWN = (wp.constant(n) for n in range(5))
"""As in :data:`envlab_navigation.nav_cfg.ACTIONS`."""
SUBSTEPS = wp.constant(3)
"""Substeps of a move, each shorter than the agent's radius, so that no wall is passed."""
PUSHES = wp.constant(4)
"""Rounds in which everything pushes an agent out."""
FAR = wp.constant(50.0)
"""In m: farther than any path in a house."""


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
    walls: wp.array2d(dtype=float),
    primitives: wp.array2d(dtype=float),
    radius: float,
    height: float,
    wanted: wp.vec2,
) -> wp.vec3:
    """Return a disc's centre clear of everything, and the distance of the last round's move."""
    q = wanted
    before = q
    for _ in range(PUSHES):
        before = q
        for k in range(walls.shape[0]):
            if walls[k, 2] < 0.0:
                break
            q = push(q, walls[k, 0], walls[k, 1], walls[k, 2], walls[k, 3], False, radius)
        for k in range(primitives.shape[0]):
            half_x = primitives[k, 2]
            if half_x < 0.0:
                break
            if primitives[k, 4] < height:
                q = push(
                    q,
                    primitives[k, 0],
                    primitives[k, 1],
                    half_x,
                    primitives[k, 3],
                    primitives[k, 6] > 0.5,
                    radius,
                )
    return wp.vec3(q[0], q[1], wp.length(q - before))


@wp.struct
class Houses:
    """The houses in memory, by slot, and their goals and starts; see :class:`HouseSet`."""

    walls: wp.array3d(dtype=float)
    primitives: wp.array3d(dtype=float)
    points: wp.array3d(dtype=float)
    starts: wp.array3d(dtype=wp.bool)
    fields: wp.array4d(dtype=wp.int16)
    offers: wp.array2d(dtype=wp.bool)
    open_slots: wp.array(dtype=wp.int32)
    cell: float


@wp.struct
class State:
    """The state of episodes, by environment; see :class:`envlab_navigation.agents.Agents`."""

    slot: wp.array(dtype=wp.int32)
    goal: wp.array(dtype=wp.int32)
    goal_class: wp.array(dtype=wp.int32)
    mirrored: wp.array(dtype=wp.bool)
    pose: wp.array2d(dtype=float)
    start: wp.array2d(dtype=float)
    distance: wp.array(dtype=float)
    start_distance: wp.array(dtype=float)
    travelled: wp.array(dtype=float)
    collisions: wp.array(dtype=float)
    progress: wp.array(dtype=float)
    failed: wp.array(dtype=wp.bool)


@wp.struct
class Rules:
    """Settings of agents, actions and observations: :class:`.nav_cfg.NavEnvCfg` in numbers."""

    radius: float
    height: float
    camera_height: float
    step: float
    turn: float
    num_headings: int
    mirror: float
    look: float
    slides: bool
    nearest_mm: int
    farthest_mm: int
    unreachable: float
    num_targets: int
    first_target: int
    goal_is_point: bool
    tells_place: bool
    tells_pitch: bool


@wp.func
def distance_to_goal(fields: wp.array2d(dtype=wp.int16), cell: float, x: float, y: float) -> float:
    """Return the geodesic distance in m, by the best of the four cells around a point.

    Args:
        fields: Distances of one goal in mm, ``GRID``.
        cell: Side of a cell, in m.
        x: In m.
        y: In m.
    """
    column = int(wp.floor(x / cell - 0.5))
    row = int(wp.floor(y / cell - 0.5))
    best = FAR
    for corner in range(4):
        j = wp.clamp(column + corner % 2, 0, fields.shape[1] - 1)
        i = wp.clamp(row + corner / 2, 0, fields.shape[0] - 1)
        value = float(fields[i, j]) * 0.001
        if value > 0.0:
            dx = (float(j) + 0.5) * cell - x
            dy = (float(i) + 0.5) * cell - y
            value = value + wp.sqrt(dx * dx + dy * dy)
        best = wp.min(best, value)
    return best


@wp.func
def moved_ahead(
    walls: wp.array2d(dtype=float),
    primitives: wp.array2d(dtype=float),
    rules: Rules,
    start: wp.vec2,
    yaw: float,
) -> wp.vec2:
    """Return the position after a step ahead; obstacles are slid along, or stop it."""
    delta = wp.vec2(wp.cos(yaw), wp.sin(yaw)) * (rules.step / float(SUBSTEPS))
    p = start
    for _ in range(SUBSTEPS):
        wanted = p + delta
        out = push_out(walls, primitives, rules.radius, rules.height, wanted)
        q = wp.vec2(out[0], out[1])
        # A corner may push back and forth forever, or far away: then the agent stays.
        fits = out[2] < 1.0e-4 and wp.length(q - p) < 2.0 * wp.length(delta)
        if fits and (rules.slides or wp.length(q - wanted) < 1.0e-4):
            p = q
    return p


@wp.kernel
def act(houses: Houses, rules: Rules, state: State, action: wp.array(dtype=wp.int32)):
    """Turn, look and move ahead by actions, ``(num_envs,)``; update the dependent state.

    An agent whose pose is not finite returns to its start: its episode has failed.
    """
    n = wp.tid()
    finite = bool(True)
    for k in range(5):
        finite = finite and wp.isfinite(state.pose[n, k])
    state.failed[n] = not finite
    if not finite:
        for k in range(5):
            state.pose[n, k] = state.start[n, k]
    what = action[n]
    left = wp.where(state.mirrored[n], -rules.turn, rules.turn)
    if what == ROTATE_LEFT:
        state.pose[n, 3] = state.pose[n, 3] + left
    elif what == ROTATE_RIGHT:
        state.pose[n, 3] = state.pose[n, 3] - left
    elif what == LOOK_UP:
        state.pose[n, 4] = wp.min(state.pose[n, 4] + rules.look, rules.look)
    elif what == LOOK_DOWN:
        state.pose[n, 4] = wp.max(state.pose[n, 4] - rules.look, -rules.look)
    h = state.slot[n]
    moved = float(0.0)
    if what == MOVE_AHEAD:
        start = wp.vec2(state.pose[n, 0], state.pose[n, 1])
        p = moved_ahead(houses.walls[h], houses.primitives[h], rules, start, state.pose[n, 3])
        moved = wp.length(p - start)
        state.pose[n, 0] = p[0]
        state.pose[n, 1] = p[1]
        state.travelled[n] = state.travelled[n] + moved
        if moved < 0.9 * rules.step:
            state.collisions[n] = state.collisions[n] + 1.0
    before = state.distance[n]
    fields = houses.fields[h, state.goal[n]]
    now = distance_to_goal(fields, houses.cell, state.pose[n, 0], state.pose[n, 1])
    if now >= rules.unreachable:  # squeezed into a gap that the grid does not have
        now = before
    state.distance[n] = now
    state.progress[n] = wp.clamp(before - now, -moved, moved)


@wp.kernel
def begin(
    houses: Houses,
    rules: Rules,
    state: State,
    mask: wp.array(dtype=wp.bool),
    draws: wp.array2d(dtype=float),
    bits: wp.array(dtype=wp.int64),
    num_open: int,
):
    """Begin episodes: a house, a goal in it, and a start at a distance in the range.

    Cells are drawn until one fits; after many failures, the next fitting cell is taken.

    Args:
        houses: The houses.
        rules: The range, and other settings.
        state: Rows of ``mask`` are written.
        mask: Environments, ``(num_envs,)``.
        draws: Four draws from [0, 1) for each, ``(num_envs, 4)``.
        bits: Random bits of each, ``(num_envs,)``, of which 31 are used.
        num_open: Number of valid entries of ``houses.open_slots``.
    """
    n = wp.tid()
    if not mask[n]:
        return
    h = houses.open_slots[int(draws[n, 0] * float(num_open))]
    num_goals = int(0)
    for k in range(houses.offers.shape[1]):
        num_goals += int(houses.offers[h, k])
    rank = int(draws[n, 1] * float(num_goals))
    goal = int(-1)
    for k in range(houses.offers.shape[1]):
        if houses.offers[h, k]:
            if rank == 0:
                goal = k
            rank -= 1
    fields = houses.fields[h, goal]
    nx = fields.shape[1]
    num_cells = fields.shape[0] * nx
    generator = wp.rand_init(int(bits[n] & wp.int64(0x7FFFFFFF)))
    at = int(0)
    for tried in range(256 + num_cells):
        if tried < 256:
            at = wp.min(int(wp.randf(generator) * float(num_cells)), num_cells - 1)
        else:
            at = (at + 1) % num_cells
        far = int(fields[at / nx, at % nx])
        if (
            houses.starts[h, at / nx, at % nx]
            and far >= rules.nearest_mm
            and far <= rules.farthest_mm
        ):
            break
    state.slot[n] = h
    state.goal[n] = goal
    state.pose[n, 0] = (float(at % nx) + 0.5) * houses.cell
    state.pose[n, 1] = (float(at / nx) + 0.5) * houses.cell
    state.pose[n, 2] = rules.camera_height
    state.pose[n, 3] = wp.floor(draws[n, 2] * float(rules.num_headings)) * rules.turn
    state.pose[n, 4] = 0.0
    state.mirrored[n] = draws[n, 3] < rules.mirror
    for k in range(5):
        state.start[n, k] = state.pose[n, k]
    distance = distance_to_goal(fields, houses.cell, state.pose[n, 0], state.pose[n, 1])
    state.distance[n] = distance
    state.start_distance[n] = distance
    state.travelled[n] = 0.0
    state.collisions[n] = 0.0
    state.goal_class[n] = wp.where(goal < rules.num_targets, goal + rules.first_target, -1)


@wp.kernel
def tell(houses: Houses, rules: Rules, state: State, told: wp.array2d(dtype=float)):
    """Write the group ``policy``, ``(num_envs, dim)``: see :meth:`NavEnv.policy_names`."""
    n = wp.tid()
    x = state.pose[n, 0]
    y = state.pose[n, 1]
    yaw = state.pose[n, 3]
    goal = state.goal[n]
    left = wp.where(state.mirrored[n], -1.0, 1.0)
    k = int(0)
    if rules.goal_is_point:
        number = goal - rules.num_targets
        dx = houses.points[state.slot[n], number, 0] - x
        dy = houses.points[state.slot[n], number, 1] - y
        direction = wp.atan2(dy, dx) - yaw
        told[n, 0] = wp.sqrt(dx * dx + dy * dy)
        told[n, 1] = wp.cos(direction)
        told[n, 2] = left * wp.sin(direction)
        k = int(3)
    else:
        for target in range(rules.num_targets):
            told[n, target] = wp.where(target == goal, 1.0, 0.0)
        k = rules.num_targets
    if rules.tells_place:
        dx = x - state.start[n, 0]
        dy = y - state.start[n, 1]
        cos = wp.cos(state.start[n, 3])
        sin = wp.sin(state.start[n, 3])
        turned = yaw - state.start[n, 3]
        told[n, k] = cos * dx + sin * dy
        told[n, k + 1] = left * (cos * dy - sin * dx)
        told[n, k + 2] = wp.cos(turned)
        told[n, k + 3] = left * wp.sin(turned)
        k = k + 4
    if rules.tells_pitch:
        told[n, k] = state.pose[n, 4]


@wp.kernel
def measure(
    houses: Houses,
    state: State,
    points: wp.array3d(dtype=float),
    distance: wp.array2d(dtype=float),
):
    """Measure geodesic distances to goals.

    Args:
        houses: The houses.
        state: Episodes' state, with their goals.
        points: x and y, in m, ``(num_envs, num_points, 2)``.
        distance: In m, ``(num_envs, num_points)``; written.
    """
    n, k = wp.tid()
    fields = houses.fields[state.slot[n], state.goal[n]]
    distance[n, k] = distance_to_goal(fields, houses.cell, points[n, k, 0], points[n, k, 1])
