"""Users' own houses: rooms, doors, walls and objects in a small YAML or JSON file.

docs/navigation.md has an example.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from envlab.config import PositiveFloat, Range, check_ranges, from_dict
from envlab.errors import ConfigurationError, did_you_mean
from envlab_navigation.floor_plan import DOOR_WIDTH, WALL_HALF, Line, Outline
from envlab_navigation.furnishing import Placed
from envlab_navigation.furniture import (
    FURNITURE,
    ON_FLOOR,
    OTHER,
    TARGETS,
    Thing,
    box,
    draw_thing,
    fitted,
)
from envlab_navigation.house import CEILING_HEIGHT, CELL
from envlab_navigation.layout import Layout, Paint, Point, cut, edges_of, is_on, join, make_plan

KINDS = (*FURNITURE, OTHER, *TARGETS)
"""Classes of objects."""
MIN_DOOR_M = 0.6
"""Width of a door through which an agent fits for any position of the grid."""
_ON_WALL_M = 0.2
"""Largest distance between a door and its wall."""
_FAR_M = 1000.0
MOST = {"rooms": 200, "doors": 1000, "walls": 1000, "objects": 2000, "starts": 10_000}
"""Entries of a file: several times those of ProcTHOR's houses. Each is compared with others."""

Place = Annotated[tuple[float, float], Range(at_least=-_FAR_M, at_most=_FAR_M)]
"""x and y, in m."""
Places = Annotated[list[tuple[float, float]], Range(at_least=-_FAR_M, at_most=_FAR_M)]
Shades = Annotated[tuple[float, float, float], Range(at_least=0, at_most=1)]
"""Red, green and blue."""


@dataclass(kw_only=True)
class RoomCfg:
    """A room (``rooms``): walls stand on all of its sides."""

    name: str
    """Its name in messages."""
    corners: Places
    """Two opposite corners of a rectangle, or all corners one after the other; x and y in m."""
    floor_colour: Shades | None = None
    """Red, green and blue from 0 to 1; null: drawn at random."""
    wall_colour: Shades | None = None
    """The same for its walls."""

    def outline(self) -> list[Point]:
        """Return all corners, one after the other."""
        if len(self.corners) != 2:
            return list(self.corners)
        (x0, y0), (x1, y1) = self.corners
        return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


@dataclass(kw_only=True)
class DoorCfg:
    """An opening between two rooms (``doors``), with a lintel above."""

    at: Place
    """Its centre, on a wall, in m."""
    width: PositiveFloat = DOOR_WIDTH
    """Width in m."""


@dataclass(kw_only=True)
class WallCfg:
    """A wall besides those around rooms (``walls``)."""

    start: Place
    """x and y in m."""
    end: Place
    """x and y in m; along x or y from the start."""


@dataclass(kw_only=True)
class ObjectCfg:
    """A thing (``objects``)."""

    kind: str
    """Its class: furniture, a target, or ``Other``, a box."""
    at: Place
    """Its centre, in m."""
    turn: Literal[0, 90, 180, 270] = 0
    """Degrees to the left; at 0 its back is at larger y."""
    z: Annotated[float, Range(at_least=0, below=CEILING_HEIGHT)] | None = None
    """Height of its underside, in m; null: it stands on the furniture below it, or on the floor."""
    size: Annotated[tuple[float, float, float], Range(above=0, at_most=_FAR_M)] | None = None
    """Width, depth and height before it is turned, in m; null: as in houses of a split."""
    colour: Shades | None = None
    """One colour for the whole thing; null: as in houses of a split."""


@dataclass(kw_only=True)
class HouseFile:
    """The contents of a file."""

    rooms: list[RoomCfg]
    doors: list[DoorCfg] = field(default_factory=list)
    walls: list[WallCfg] = field(default_factory=list)
    objects: list[ObjectCfg] = field(default_factory=list)
    starts: Places = field(default_factory=list)
    """Starts of episodes, to the nearest 0.1 m; empty: anywhere."""


def parse_house(values: dict[str, Any], path: str) -> Layout:
    """Return the layout that a file of this format describes.

    Args:
        values: Contents of the file.
        path: The file, for messages.

    Raises:
        ConfigurationError: For a wrong key or value, walls or rooms that overlap, a door in
            no wall, an object of no class, or an object or a start in no room.
    """
    for name, most in MOST.items():
        given = values.get(name)
        if isinstance(given, list) and len(given) > most:
            raise ConfigurationError(
                f"{path}.{name} has {len(given):,} entries, but a house has at most {most:,}."
            )
    file = from_dict(HouseFile, values, path)
    check_ranges(file, path)
    if not file.rooms:
        raise ConfigurationError(f"{path}.rooms is empty, but a house needs a room.")
    sides = [_sides(room, f"{path}.rooms.{number}") for number, room in enumerate(file.rooms)]
    rooms = [Outline(room.outline()) for room in file.rooms]
    _check_rooms(file, rooms, path)
    walls = [_wall(wall, f"{path}.walls.{number}") for number, wall in enumerate(file.walls)]
    lines = _joined(file, sides, walls, path)
    doors = _doors(file, rooms, lines, path)
    for number, start in enumerate(file.starts):
        if not any(_is_in(room, *start) for room in rooms):
            raise ConfigurationError(
                f"{path}.starts.{number}, {list(start)}, is in no room. Move it into one."
            )
    return Layout(
        path=path,
        names=[room.name for room in file.rooms],
        plan=make_plan(rooms, lines, doors),
        things=_things(file, rooms, path),
        paints=[Paint(room.floor_colour, room.wall_colour) for room in file.rooms],
        starts=list(file.starts),
        notes=[],
    )


def _sides(room: RoomCfg, where: str) -> list[Line]:
    corners = room.outline()
    try:
        sides = edges_of(corners)
    except ValueError as error:
        raise ConfigurationError(
            f"{where}.corners of the room {room.name!r}: {error}. Walls stand at right angles."
        ) from None
    if len(sides) < 4 or any(line.high - line.low < 4 * WALL_HALF for line in sides):
        raise ConfigurationError(
            f"{where}.corners of the room {room.name!r} is {[list(corner) for corner in corners]}, "
            f"but needs two opposite corners, or four and more with sides of {4 * WALL_HALF:g} m "
            "or longer."
        )
    for one, other in itertools.combinations(sides, 2):
        if one.axis != other.axis and all(
            line.low < second.at < line.high for line, second in ((one, other), (other, one))
        ):
            raise ConfigurationError(
                f"{where}.corners of the room {room.name!r}: two of its sides cross. List the "
                "corners in the order in which you would walk along its walls."
            )
    return sides


def _check_rooms(file: HouseFile, rooms: list[Outline], path: str) -> None:
    """Refuse rooms that share floor, by testing points of a grid as fine as the house's."""
    for (one, room), (other, second) in itertools.combinations(
        zip(file.rooms, rooms, strict=True), 2
    ):
        low, high = (
            [
                pick(pick(c[axis] for c in corners) for corners in (room.corners, second.corners))
                for axis in (0, 1)
            ]
            for pick in (min, max)
        )
        if max(np.subtract(high, low)) > _FAR_M / 10:
            continue  # the house is too large and is refused later
        x = np.arange(low[0] + CELL / 2, high[0], CELL)[None, :]
        y = np.arange(low[1] + CELL / 2, high[1], CELL)[:, None]
        shared = (room.covers(x, y) & second.covers(x, y)).sum() * CELL**2
        if shared > CELL:
            raise ConfigurationError(
                f"{path}: the rooms {one.name!r} and {other.name!r} overlap by {shared:.1f} m². "
                "Let them share a side instead."
            )


def _wall(wall: WallCfg, where: str) -> Line:
    try:
        lines = edges_of([wall.start, wall.end])
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}. Walls stand at right angles.") from None
    if not lines:
        raise ConfigurationError(f"{where} ends where it starts, at {list(wall.start)}.")
    return lines[0]


def _joined(file: HouseFile, sides: list[list[Line]], walls: list[Line], path: str) -> list[Line]:
    """Return the walls' lines, and refuse those next to or inside one another.

    Sides of two rooms on one line are one wall.
    """
    named = [
        (f"a wall of the room {room.name!r}", line)
        for room, lines in zip(file.rooms, sides, strict=True)
        for line in lines
    ]
    for number, wall in enumerate(walls):
        named.append((f"walls.{number}", wall))
    for (one, line), (other, second) in itertools.combinations(named, 2):
        shared = min(line.high, second.high) - max(line.low, second.low)
        is_beside = line.axis == second.axis and abs(line.at - second.at) < 2 * WALL_HALF
        is_one = is_on(line, second) and not other.startswith("walls.")
        if is_beside and shared > 2 * WALL_HALF and not is_one:
            raise ConfigurationError(
                f"{path}: {one} and {other} overlap for {shared:.2f} m, at {'xy'[line.axis]} = "
                f"{line.at:g} and {second.at:g}. Leave one of them out, or move it by "
                f"{2 * WALL_HALF:g} m or more."
            )
    return join([line for _, line in named])


def _doors(file: HouseFile, rooms: list[Outline], lines: list[Line], path: str) -> list[Line]:
    doors: list[Line] = []
    for number, door in enumerate(file.doors):
        where = f"{path}.doors.{number} at {list(door.at)}"
        if door.width < MIN_DOOR_M:
            raise ConfigurationError(
                f"{where} is {door.width:g} m wide, but an agent needs {MIN_DOOR_M:g} m."
            )
        far, line = min((_distance(door, line), line) for line in lines)
        if far > _ON_WALL_M:
            raise ConfigurationError(
                f"{where} is in no wall: the nearest is {far:.2f} m away. Give a point on a wall "
                "between two rooms."
            )
        middle = door.at[1 - line.axis]
        gap = line._replace(low=middle - door.width / 2, high=middle + door.width / 2)
        if gap.low < line.low + WALL_HALF or gap.high > line.high - WALL_HALF:
            raise ConfigurationError(
                f"{where} is {door.width:g} m wide and does not fit into its wall, which goes from "
                f"{line.low:g} to {line.high:g} m. Move it, or make it narrower."
            )
        if cut([gap], doors) != [gap]:
            raise ConfigurationError(f"{where} overlaps another door. Move one of them.")
        for aside in (-0.2, 0.2):
            beside = [middle, middle]
            beside[line.axis] = line.at + aside
            if not any(_is_in(room, beside[0], beside[1]) for room in rooms):
                raise ConfigurationError(
                    f"{where} leads out of the house. Put it between two rooms."
                )
        doors.append(gap)
    return doors


def _distance(door: DoorCfg, line: Line) -> float:
    along = door.at[1 - line.axis]
    beyond = max(line.low - along, along - line.high, 0.0)
    return math.hypot(door.at[line.axis] - line.at, beyond)


def _things(file: HouseFile, rooms: list[Outline], path: str) -> list[Placed]:
    placed: list[Placed] = []
    for number, cfg in enumerate(file.objects):
        where = f"{path}.objects.{number}"
        if cfg.kind not in KINDS:
            raise ConfigurationError(
                f"{where}.kind {cfg.kind!r} is not a class.{did_you_mean(cfg.kind, KINDS)} There "
                f"are {', '.join(KINDS)}."
            )
        if not any(_is_in(room, *cfg.at) for room in rooms):
            raise ConfigurationError(
                f"{where}, a {cfg.kind} at {list(cfg.at)}, is in no room. Move it into one."
            )
        placed.append(Placed(_thing(cfg, number, where), *cfg.at, cfg.turn // 90, cfg.z or 0.0))
    for number, cfg in enumerate(file.objects):
        if cfg.z is None and cfg.kind in TARGETS and cfg.kind not in ON_FLOOR:
            placed[number] = placed[number]._replace(z=_surface_below(*cfg.at, placed))
    return placed


def _thing(cfg: ObjectCfg, number: int, where: str) -> Thing:
    if cfg.kind == OTHER and cfg.size is None:
        raise ConfigurationError(
            f"{where} is an {OTHER}, a box, which needs its size: [width, depth, height] in m."
        )
    # A change to other objects of the file does not change this one.
    rng = np.random.Generator(np.random.Philox(key=[number, 0]))
    thing = box(cfg.colour) if cfg.kind == OTHER else draw_thing(cfg.kind, rng)
    return fitted(thing, cfg.size, cfg.colour)


def _surface_below(x: float, y: float, placed: list[Placed]) -> float:
    """Return the height of the highest furniture at a point, or of the floor."""
    surfaces = [
        one.z + one.thing.surface
        for one in placed
        if one.thing.surface is not None
        and abs(one.x - x) <= one.footprint.half_x
        and abs(one.y - y) <= one.footprint.half_y
    ]
    return max(surfaces, default=0.0)


def _is_in(room: Outline, x: float, y: float) -> bool:
    return bool(room.covers(np.array([x]), np.array([y]))[0])
