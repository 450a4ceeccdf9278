"""The layout of a house in a file, and the house built from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from envlab.errors import ConfigurationError
from envlab_navigation.floor_plan import MARGIN, WALL_HALF, FloorPlan, Line, Outline, stretch
from envlab_navigation.furnishing import Placed
from envlab_navigation.furniture import CLASSES, FIRST_TARGET, Colour
from envlab_navigation.house import CELL, MAX_CELLS, House, Size, build_house, centres

Point = tuple[float, float]
MOST_ROOMS, MOST_PARTS = 200, 2000
"""Limits of a file: a camera tests each part of each thing in every column of a picture."""
_EPSILON = 1e-3


class Paint(NamedTuple):
    """Colours of a room, if a file gives them."""

    floor: Colour | None = None
    walls: Colour | None = None


class Layout(NamedTuple):
    """A house as a file describes it; lengths in m, from an origin of the file's own."""

    path: str
    names: list[str]
    """Names of the rooms."""
    plan: FloorPlan[Outline]
    things: list[Placed]
    paints: list[Paint]
    """Paints of the rooms."""
    starts: list[Point]
    """Starts of episodes; empty: anywhere."""
    notes: list[str]
    """Contents of the file that the house lacks."""
    is_imported: bool = False
    """Whether it was made for another simulator, and may have flaws here."""

    @property
    def shift(self) -> Point:
        """Offset of the file's coordinates, so that all of the house's are positive."""
        corners = [corner for room in self.plan.rooms for corner in room.corners]
        return MARGIN - min(x for x, _ in corners), MARGIN - min(y for _, y in corners)

    def size(self) -> Size:
        """Return how large the house's arrays are.

        Raises:
            ConfigurationError: If it exceeds a limit.
        """
        corners = [corner for room in self.plan.rooms for corner in room.corners]
        spans = [max(values) - min(values) for values in zip(*corners, strict=True)]
        if max(spans) > (longest := MAX_CELLS * CELL - 2 * MARGIN):
            raise ConfigurationError(
                f"{self.path} is {spans[0]:g} by {spans[1]:g} m, but a house has at most "
                f"{longest:g} m along x and y. Make it smaller, or two files of it."
            )
        num_parts = len(self.plan.doors) + sum(len(thing.thing.parts) for thing in self.things)
        for what, count, most in (
            ("rooms", len(self.plan.rooms), MOST_ROOMS),
            ("parts of doors and objects", num_parts, MOST_PARTS),
        ):
            if count > most:
                raise ConfigurationError(
                    f"{self.path} has {count} {what}, but a house has at most {most}. "
                    "Leave some out."
                )
        columns, rows = (math.ceil((span + 2 * MARGIN) / CELL - _EPSILON) for span in spans)
        return Size((rows, columns), len(self.plan.walls), max(num_parts, 1), len(self.plan.rooms))

    def build(self, rng: np.random.Generator, size: Size) -> House:
        """Return the house; ``rng`` draws values that the file leaves open.

        Raises:
            ConfigurationError: If a start of episodes is not reachable.
        """
        layout = self._shifted()
        house = build_house(layout.plan, layout.things, rng, size)
        for row, paint in zip(house.paints, self.paints, strict=False):
            for surface, colour in zip(row, paint, strict=True):
                if colour is not None:
                    surface[:3] = colour
        if not house.free.any():
            raise ConfigurationError(
                f"{self.path} has no place where an agent fits. Give it a larger room, or "
                "put less into it."
            )
        if not self.starts:
            return house
        starts = np.zeros_like(house.free)
        for number, (x, y) in enumerate(layout.starts):
            starts[int(y / CELL + _EPSILON), int(x / CELL + _EPSILON)] = True
            if (starts & ~house.free).any():
                raise ConfigurationError(
                    f"starts.{number} of {self.path}, {list(self.starts[number])}, is walled in: a "
                    "thing is within 0.2 m of it, or no path leads to the rest of the house. Move "
                    "it, or clear a path."
                )
        return house._replace(starts=starts)

    def unreachable(self, house: House) -> list[str]:
        """Return the names of the rooms that cannot be reached."""
        rooms, grid = self._shifted().plan.rooms, centres(house.free.shape)
        return [
            name
            for name, room in zip(self.names, rooms, strict=True)
            if not (house.free & room.covers(*grid)).any()
        ]

    def unseen(self, house: House) -> list[str]:
        """Return its target classes that cannot be reached."""
        numbers = sorted({CLASSES.index(thing.thing.name) - FIRST_TARGET for thing in self.things})
        return [
            CLASSES[FIRST_TARGET + number]
            for number in numbers
            if number >= 0 and not house.zones[number].any()
        ]

    def _shifted(self) -> Layout:
        dx, dy = self.shift
        plan = self.plan
        rooms = [Outline([(x + dx, y + dy) for x, y in room.corners]) for room in plan.rooms]
        walls, doors = (
            [shape._replace(x=shape.x + dx, y=shape.y + dy) for shape in shapes]
            for shapes in (plan.walls, plan.doors)
        )
        return self._replace(
            plan=FloorPlan(rooms, walls, doors),
            things=[thing._replace(x=thing.x + dx, y=thing.y + dy) for thing in self.things],
            starts=[(x + dx, y + dy) for x, y in self.starts],
        )


def edges_of(corners: Sequence[Point]) -> list[Line]:
    """Return the sides of a room.

    Raises:
        ValueError: If a side does not run along x or y.
    """
    lines = []
    for (x0, y0), (x1, y1) in itertools.pairwise([*corners, corners[0]]):
        if abs(x0 - x1) > _EPSILON and abs(y0 - y1) > _EPSILON:
            raise ValueError(f"the side from {[x0, y0]} to {[x1, y1]} runs along neither x nor y")
        axis = 0 if abs(x0 - x1) <= _EPSILON else 1
        low, high = sorted((y0, y1) if axis == 0 else (x0, x1))
        if high - low > _EPSILON:
            lines.append(Line(axis, (x0, y0)[axis], low, high))
    return lines


def join(lines: Iterable[Line]) -> list[Line]:
    """Return lines, with collinear ones that overlap or touch merged."""
    pieces: dict[tuple[int, float], list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.low):
        same = pieces.setdefault((line.axis, round(line.at, 3)), [])
        if same and line.low <= same[-1].high + _EPSILON:
            same[-1] = same[-1]._replace(high=max(same[-1].high, line.high))
        else:
            same.append(line)
    return [line for same in pieces.values() for line in same]


def cut(lines: Iterable[Line], gaps: Sequence[Line]) -> list[Line]:
    """Return lines without gaps on the same lines."""
    rest = []
    for line in lines:
        low = line.low
        for gap in sorted(gaps, key=lambda gap: gap.low):
            if is_on(gap, line) and low < gap.high and gap.low < line.high:
                if gap.low > low + _EPSILON:
                    rest.append(line._replace(low=low, high=gap.low))
                low = gap.high
        if line.high > low + _EPSILON:
            rest.append(line._replace(low=low))
    return rest


def is_on(one: Line, other: Line) -> bool:
    """Return whether two lines lie on a common line."""
    return one.axis == other.axis and abs(one.at - other.at) <= _EPSILON


def make_plan(
    rooms: list[Outline], lines: Sequence[Line], doors: Sequence[Line]
) -> FloorPlan[Outline]:
    """Return a floor plan.

    Args:
        rooms: The rooms.
        lines: Lines of walls, including the openings of doors.
        doors: Openings in them.
    """
    half = WALL_HALF - _EPSILON  # walls meet in corners, and no two sides share a plane
    long = [line._replace(low=line.low - half, high=line.high + half) for line in join(lines)]
    walls, openings = ([stretch(*line) for line in some] for some in (cut(long, doors), doors))
    return FloorPlan(rooms, walls, openings)
