"""Houses as arrays: drawn shapes, free cells, and zones of arrival."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from envlab.errors import ConfigurationError, did_you_mean
from envlab_navigation.floor_plan import (
    DEPTH_RANGE,
    DOOR_HEIGHT,
    MARGIN,
    MAX_ROOMS,
    WIDTH_RANGE,
    FloorPlan,
    Rectangle,
    draw_floor_plan,
)
from envlab_navigation.furnishing import Placed, furnish
from envlab_navigation.furniture import BOX, CLASSES, DOOR, FIRST_TARGET, TARGETS

SPLITS = ("train", "val", "test")
HOUSES_PER_SPLIT = 1 << 32
CEILING_HEIGHT = 2.6
CELL = 0.1
"""Side of a grid cell, in m."""
GRID = (
    math.ceil((DEPTH_RANGE[1] + 2 * MARGIN) / CELL),
    math.ceil((WIDTH_RANGE[1] + 2 * MARGIN) / CELL),
)
"""Cells along y and x."""
MAX_WALLS, MAX_PRIMITIVES = 40, 112
MAX_CELLS = 300
"""Limit of a house along x or y."""
AGENT_RADIUS, AGENT_HEIGHT = 0.18, 1.0
"""Cylinder that must not touch anything, in m; Habitat's ObjectNav agent has this radius."""
CLEARANCE = 0.02
"""Clearance of a free cell's centre, beyond the agent's radius, in m."""
NUM_POINTS = 8
"""PointNav goals of a house."""
NUM_GOALS = len(TARGETS) + NUM_POINTS
"""Goals are numbered: the target classes, then the points."""
OBJECT_RADIUS = 1.0
"""An object is found within this distance, in m, if no wall hides it."""
POINT_RADIUS = 0.26
"""A point is reached within this distance, in m; with the tolerance of 0.1 m for ``End`` it is
0.36 m, two radii of the agent, as in the Habitat Challenge 2020."""
LINTEL_COLOUR = (0.8, 0.75, 0.65)


class Size(NamedTuple):
    """Size of the arrays of all houses in memory."""

    grid: tuple[int, int] = GRID
    """Cells along y and x."""
    num_walls: int = MAX_WALLS
    num_primitives: int = MAX_PRIMITIVES
    num_rooms: int = MAX_ROOMS


class House(NamedTuple):
    """A house; arrays are padded to a common :class:`Size`.

    Padding has negative half sizes. The sizes below are those of a split's houses.

    Attributes:
        walls: Centre x, y and half sizes, float32 ``(MAX_WALLS, 4)``, in m, from floor to ceiling.
        primitives: Centre x, y, half sizes (or twice the radius), lower and upper end, kind and
            class, float32 ``(MAX_PRIMITIVES, 8)``.
        colours: Of the primitives, float32 ``(MAX_PRIMITIVES, 3)`` in [0, 1].
        room_of: Room of each cell, uint8 ``GRID``.
        paints: Of the rooms' floors and walls: colour, pattern, and its tiles per m, float32
            ``(MAX_ROOMS, 2, 5)``.
        light: Colour of the light, its direction along x and y, and its decay with distance,
            float32 ``(6,)``.
        free: Whether the centre of an agent can be in a cell, bool ``GRID``; one connected region.
        starts: Free cells in which episodes may begin, bool ``GRID``.
        zones: Cells that count as having arrived at each goal, bool ``(NUM_GOALS, *GRID)``.
        points: PointNav goals, float32 ``(NUM_POINTS, 2)``, in m.
    """

    walls: np.ndarray
    primitives: np.ndarray
    colours: np.ndarray
    room_of: np.ndarray
    paints: np.ndarray
    light: np.ndarray
    free: np.ndarray
    starts: np.ndarray
    zones: np.ndarray
    points: np.ndarray


STANDARD = Size()
"""Size of a split's houses."""


def make_house(split: str, index: int) -> House:
    """Return house ``index`` of a split: the same numbers in every process.

    Raises:
        ConfigurationError: If there is no such split or index.
    """
    check_split(split)
    if not 0 <= index < HOUSES_PER_SPLIT:
        raise ConfigurationError(
            f"The house index is {index}, but must be at least 0 and below {HOUSES_PER_SPLIT}."
        )
    key = np.array([SPLITS.index(split), index], dtype=np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key))
    plan = draw_floor_plan(rng)
    return build_house(plan, furnish(plan, rng), rng)


def check_split(split: str) -> None:
    """Refuse an unknown split."""
    if split not in SPLITS:
        raise ConfigurationError(
            f"There is no split {split!r} of houses.{did_you_mean(split, SPLITS)} "
            f"There are {', '.join(SPLITS)}."
        )


def build_house(
    plan: FloorPlan[Any], things: Sequence[Placed], rng: np.random.Generator, size: Size = STANDARD
) -> House:
    """Return the arrays of a floor plan and its things, in which episodes may begin anywhere.

    Args:
        plan: Rooms, walls and doors.
        things: Furniture and objects; the last ones are dropped if there are too many.
        rng: Draws paints, light and points.
        size: Size of the arrays.
    """
    primitives, colours = primitives_of(plan, things, size.num_primitives)
    solid, blocked = np.zeros(size.grid, bool), np.zeros(size.grid, bool)
    for wall in plan.walls:
        stamp(solid, wall, CLEARANCE)
        stamp(blocked, wall, AGENT_RADIUS + CLEARANCE)
    for row in primitives:
        if row[4] < AGENT_HEIGHT:
            shape = Rectangle(*row[:4])
            stamp(blocked, shape, AGENT_RADIUS + CLEARANCE, is_round=row[6] != BOX)
    room_of, inside = _rooms(plan, size.grid)
    free = largest_region(inside & ~blocked)
    points = _draw_points(free, rng)
    return House(
        walls=_padded(plan.walls, (size.num_walls, 4), -1.0),
        primitives=_padded(primitives, (size.num_primitives, 8), -1.0),
        colours=_padded(colours, (size.num_primitives, 3), 0.0),
        room_of=room_of,
        paints=_draw_paints(len(plan.rooms), size.num_rooms, rng),
        light=_draw_light(rng),
        free=free,
        starts=free,
        zones=_zones(free, solid, things, points),
        points=points,
    )


def primitives_of(
    plan: FloorPlan[Any], things: Sequence[Placed], most: int
) -> tuple[list[tuple[float, ...]], list[tuple[float, float, float]]]:
    """Return rows of ``House.primitives`` and their colours: lintels, then the parts of things."""
    rows: list[tuple[float, ...]] = [
        (*door, DOOR_HEIGHT, CEILING_HEIGHT, BOX, DOOR) for door in plan.doors
    ]
    colours = [LINTEL_COLOUR] * len(rows)
    for placed in things:
        parts = placed.thing.parts
        if len(rows) + len(parts) > most:
            break
        for part in parts:
            x, y, half_x, half_y = part.x, part.y, part.half_x, part.half_y
            for _ in range(placed.turn):
                x, y, half_x, half_y = -y, x, half_y, half_x
            ends = placed.z + part.low, placed.z + part.high
            where = placed.x + x, placed.y + y, half_x, half_y
            rows.append((*where, *ends, part.kind, CLASSES.index(placed.thing.name)))
            colours.append(part.colour)
    return rows, colours


_X = ((np.arange(MAX_CELLS) + 0.5) * CELL)[None, :]
_Y = ((np.arange(MAX_CELLS) + 0.5) * CELL)[:, None]
"""Centres of the cells, in m."""


def centres(grid: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return x, ``(1, columns)``, and y, ``(rows, 1)``, of the centres of a grid's cells, in m."""
    return _X[:, : grid[1]], _Y[: grid[0]]


def stamp(grid: np.ndarray, shape: Rectangle, margin: float, *, is_round: bool = False) -> None:
    """Mark the cells whose centre is within ``margin`` of a rectangle, or of the circle in it."""
    reach_x, reach_y = shape.half_x + margin, shape.half_y + margin
    columns = slice(max(int((shape.x - reach_x) / CELL), 0), int((shape.x + reach_x) / CELL) + 1)
    rows = slice(max(int((shape.y - reach_y) / CELL), 0), int((shape.y + reach_y) / CELL) + 1)
    x, y = centres(grid.shape)
    far_x, far_y = np.abs(x[:, columns] - shape.x), np.abs(y[rows] - shape.y)
    if is_round:
        grid[rows, columns] |= far_x**2 + far_y**2 <= (shape.half_x + margin) ** 2
    else:
        far_x, far_y = np.maximum(far_x - shape.half_x, 0), np.maximum(far_y - shape.half_y, 0)
        grid[rows, columns] |= far_x**2 + far_y**2 <= margin**2


def _rooms(plan: FloorPlan[Any], grid: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the room of each cell, and whether it is in one."""
    room_of, inside = np.zeros(grid, np.uint8), np.zeros(grid, bool)
    for number, room in enumerate(plan.rooms):
        here = room.covers(*centres(grid))
        room_of[here], inside = number, inside | here
    return room_of, inside


def largest_region(cells: np.ndarray) -> np.ndarray:
    """Return the largest set of cells that are connected by their sides, bool like ``cells``.

    Runs of cells along a row are joined with touching ones in the row below.
    """
    edges = np.diff(np.pad(cells, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    stops = np.nonzero(edges == -1)[1]
    runs = list(zip(rows.tolist(), starts.tolist(), stops.tolist(), strict=True))
    parent = list(range(len(runs)))

    def root(run: int) -> int:
        while parent[run] != run:
            parent[run] = run = parent[parent[run]]
        return run

    for upper, lower in _touching(runs):
        parent[root(lower)] = root(upper)
    roots = [root(run) for run in range(len(runs))]
    sizes = np.bincount(roots, weights=stops - starts) if runs else np.zeros(1)
    best = int(np.argmax(sizes))
    region = np.zeros_like(cells)
    for (row, start, stop), group in zip(runs, roots, strict=True):
        region[row, start:stop] = group == best
    return region


def _touching(runs: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of runs in neighbouring rows that share a column; runs are in order."""
    above = 0
    for below, (row, start, stop) in enumerate(runs):
        while runs[above][0] < row - 1 or (runs[above][0] == row - 1 and runs[above][2] <= start):
            above += 1
        other = above
        while runs[other][0] == row - 1 and runs[other][1] < stop:
            yield other, below
            other += 1


def _draw_points(free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return centres of free cells, float32 ``(NUM_POINTS, 2)``; zeros where none is free."""
    rows, columns = np.nonzero(free)
    if len(rows) == 0:
        return np.zeros((NUM_POINTS, 2), np.float32)
    chosen = rng.integers(len(rows), size=NUM_POINTS)
    return np.stack([_X[0, columns[chosen]], _Y[rows[chosen], 0]], axis=1).astype(np.float32)


def _zones(
    free: np.ndarray, solid: np.ndarray, things: Sequence[Placed], points: np.ndarray
) -> np.ndarray:
    """Return the cells that count as having arrived at each goal, bool ``(NUM_GOALS, *GRID)``."""
    zones = np.zeros((NUM_GOALS, *free.shape), bool)
    cells_x, cells_y = centres(free.shape)
    for placed in things:
        goal = CLASSES.index(placed.thing.name) - FIRST_TARGET
        if goal >= 0:
            zones[goal] |= _in_sight(free, solid, placed.x, placed.y)
    for number, (x, y) in enumerate(points):
        within = (cells_x - x) ** 2 + (cells_y - y) ** 2 <= POINT_RADIUS**2
        zones[len(TARGETS) + number] = free & within
    return zones


def _in_sight(free: np.ndarray, solid: np.ndarray, x: float, y: float) -> np.ndarray:
    """Return the free cells near an object without a wall in between, bool ``GRID``."""
    cells_x, cells_y = centres(free.shape)
    near = (cells_x - x) ** 2 + (cells_y - y) ** 2 <= OBJECT_RADIUS**2
    rows, columns = np.nonzero(free & near)
    along = np.linspace(0.1, 0.95, 12)[:, None]
    seen_columns = ((columns + 0.5) * (1 - along) + x / CELL * along).astype(int)
    seen_rows = ((rows + 0.5) * (1 - along) + y / CELL * along).astype(int)
    last_row, last_column = free.shape[0] - 1, free.shape[1] - 1
    hidden = solid[seen_rows.clip(0, last_row), seen_columns.clip(0, last_column)].any(axis=0)
    zone = np.zeros_like(free)
    zone[rows[~hidden], columns[~hidden]] = True
    return zone


def _draw_paints(num_rooms: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return colours and patterns of floors and walls, float32 ``(most, 2, 5)``."""
    paints = np.zeros((most, 2, 5), np.float32)
    for room in paints[:num_rooms]:
        floor = np.array([0.6, 0.5, 0.4]) * rng.uniform(0.6, 1.2) + rng.uniform(-0.1, 0.1, 3)
        room[0] = *floor.clip(0.1, 1.0), rng.integers(3), rng.uniform(2.0, 5.0)
        room[1] = *rng.uniform(0.55, 0.95, 3), rng.integers(3), rng.uniform(2.5, 6.0)
    return paints


def _draw_light(rng: np.random.Generator) -> np.ndarray:
    warmth, strength = rng.uniform(-0.08, 0.08), rng.uniform(0.85, 1.1)
    angle = rng.uniform(0.0, 2.0 * math.pi)
    colour = strength * (1 + warmth), strength, strength * (1 - warmth)
    direction = math.cos(angle), math.sin(angle)
    return np.array([*colour, *direction, rng.uniform(0.006, 0.02)], np.float32)


def _padded(rows: Sequence[Sequence[float]], shape: tuple[int, int], fill: float) -> np.ndarray:
    out = np.full(shape, fill, np.float32)
    if rows:
        out[: len(rows)] = rows
    return out
