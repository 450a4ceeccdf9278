"""Floor plans: a rectangle split into rooms, with a door in every wall between them.

Lengths are in metres; x and y span the floor, and z is up.
"""

from __future__ import annotations

import itertools
from typing import Generic, NamedTuple, TypeVar

import numpy as np

MAX_ROOMS = 8
WIDTH_RANGE = (6.5, 11.0)
"""Size of a house along x."""
DEPTH_RANGE = (5.5, 9.0)
"""Size of a house along y."""
MARGIN = 0.1
"""Distance between the origin and the centre lines of the outer walls."""
MIN_ROOM = 2.2
"""Shortest side of a room."""
WALL_HALF = 0.05
DOOR_WIDTH, DOOR_HEIGHT = 0.95, 2.05
SECOND_DOOR = 0.4
"""Probability of two doors in a wall that is long enough."""


class Room(NamedTuple):
    """A rectangle between the centre lines of walls."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def area(self) -> float:
        """Area in square metres."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)

    def covers(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return which points lie in the room, bool, in the broadcast shape of x and y."""
        return (self.x0 < x) & (self.x1 >= x) & (self.y0 < y) & (self.y1 >= y)


class Outline(NamedTuple):
    """A room of any shape with right angles, between the centre lines of walls."""

    corners: list[tuple[float, float]]
    """In order, in either direction; the last is joined to the first."""

    def covers(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return which points lie in the room: those with an odd number of walls to their left."""
        inside = np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
        for (x0, y0), (_, y1) in zip(self.corners, np.roll(self.corners, -1, 0), strict=True):
            inside ^= (x > x0) & (y > min(y0, y1)) & (y <= max(y0, y1))
        return inside


class Rectangle(NamedTuple):
    """Centre and half sizes, along the axes."""

    x: float
    y: float
    half_x: float
    half_y: float


AnyRoom = TypeVar("AnyRoom", Room, Outline)


class FloorPlan(NamedTuple, Generic[AnyRoom]):
    """Rooms, the walls around and between them, and the doors in these."""

    rooms: list[AnyRoom]
    walls: list[Rectangle]
    """Walls from the floor to the ceiling."""
    doors: list[Rectangle]
    """Openings, above which a lintel closes the wall."""


class Line(NamedTuple):
    """A piece of a wall's centre line, on which coordinate ``axis`` is ``at``."""

    axis: int
    at: float
    low: float
    high: float


def draw_floor_plan(rng: np.random.Generator) -> FloorPlan[Room]:
    """Return a floor plan whose rooms can all be reached.

    The largest room is split again and again. Each wall of a split gets a door, so that by
    induction all rooms are connected.
    """
    width, depth = rng.uniform(*WIDTH_RANGE), rng.uniform(*DEPTH_RANGE)
    rooms = [Room(MARGIN, MARGIN, MARGIN + width, MARGIN + depth)]
    splits: list[Line] = []
    for _ in range(rng.integers(2, MAX_ROOMS - 1)):
        room = max(rooms, key=lambda one: one.area)
        axis = 0 if room.x1 - room.x0 >= room.y1 - room.y0 else 1
        low, high = room[axis], room[axis + 2]
        if high - low < 2 * MIN_ROOM + 0.2:
            break
        at = float(rng.uniform(low + MIN_ROOM, high - MIN_ROOM))
        ends, starts = list(room), list(room)
        ends[axis + 2], starts[axis] = at, at
        rooms.remove(room)
        rooms += [Room(*ends), Room(*starts)]
        splits.append(Line(axis, at, room[1 - axis], room[3 - axis]))
    plan: FloorPlan[Room] = FloorPlan(rooms, [], [])
    for split in splits:
        _build_wall(plan, split, _door_centres(split, splits, rng))
    outline = Line(0, MARGIN, MARGIN, MARGIN + depth), Line(1, MARGIN, MARGIN, MARGIN + width)
    for side, across in zip(outline, outline[::-1], strict=True):
        for at in (side.at, across.high):
            low, high = side.low - WALL_HALF, side.high + WALL_HALF
            plan.walls.append(stretch(side.axis, at, low, high))
    return plan


def _door_centres(split: Line, splits: list[Line], rng: np.random.Generator) -> list[float]:
    """Return positions of one or two doors along a split's wall, clear of adjoining walls."""
    joints = [
        other.at
        for other in splits
        if other.axis != split.axis
        and split.low < other.at < split.high
        and split.at in (other.low, other.high)
    ]
    corners = sorted([split.low, *joints, split.high])
    pieces = list(itertools.pairwise(corners))
    wide = [piece for piece in pieces if piece[1] - piece[0] > DOOR_WIDTH + 0.3]
    wide = wide or [max(pieces, key=lambda piece: piece[1] - piece[0])]
    count = 1 + int(rng.random() < SECOND_DOOR)
    centres = []
    for index in rng.permutation(len(wide))[:count]:
        low, high = wide[index]
        room = max((high - low - DOOR_WIDTH) / 2 - 0.12, 0.0)
        centres.append((low + high) / 2 + float(rng.uniform(-room, room)))
    return sorted(centres)


def _build_wall(plan: FloorPlan[Room], split: Line, doors: list[float]) -> None:
    start = split.low
    for centre in doors:
        low, high = centre - DOOR_WIDTH / 2, centre + DOOR_WIDTH / 2
        plan.doors.append(stretch(split.axis, split.at, low, high))
        plan.walls.append(stretch(split.axis, split.at, start, low))
        start = high
    plan.walls.append(stretch(split.axis, split.at, start, split.high))


def stretch(axis: int, at: float, low: float, high: float) -> Rectangle:
    """Return a piece of wall on the line where coordinate ``axis`` is ``at``."""
    along, half = (low + high) / 2, (high - low) / 2
    if axis == 0:
        return Rectangle(at, along, WALL_HALF, half)
    return Rectangle(along, at, half, WALL_HALF)
