"""Houses of ProcTHOR (JSON): rooms, doors and objects as far as boxes and right angles allow.

Format: Deitke et al., "ProcTHOR: Large-Scale Embodied AI Using Procedural Generation" (NeurIPS
2022), ``procthor/utils/types.py``, schemas 0.0.1 and 1.0.0. Its x and z are x and y here, its y is
up, and it turns to the right.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from envlab.errors import ConfigurationError
from envlab_navigation.floor_plan import WALL_HALF, Line, Outline
from envlab_navigation.furnishing import Placed
from envlab_navigation.furniture import TARGETS, Colour, Thing, box, draw_thing, fitted
from envlab_navigation.house import CEILING_HEIGHT
from envlab_navigation.layout import Layout, Paint, Point, cut, edges_of, is_on, make_plan
from envlab_navigation.procthor_sizes import SIZES_M

_CLASS_OF = {name: name for name in (*TARGETS, "Chair", "Sofa", "Bed")} | {
    "ArmChair": "Sofa",
    "CoffeeTable": "Table",
    "Desk": "Table",
    "DiningTable": "Table",
    "Dresser": "Stand",
    "ShelvingUnit": "Shelf",
    "SideTable": "Stand",
    "TVStand": "Stand",
}
"""Class of a type; others are boxes of no class."""
_BY_LENGTH = sorted(SIZES_M, key=len, reverse=True)
_MOST = 1000.0
_DROP_M = 0.15
"""Largest gap between an object's underside, by its typical height, and the top below it."""


class _Item(NamedTuple):
    """An object of a file, with the height of its support, if known."""

    values: Mapping[str, Any]
    type_name: str
    floor: float | None


def is_procthor(values: Mapping[str, Any]) -> bool:
    """Return whether a JSON file is a house of ProcTHOR."""
    match values.get("rooms"):
        case [{"floorPolygon": _}, *_]:
            return True
    return False


def parse_procthor(values: dict[str, Any], path: str) -> Layout:
    """Return the layout that a house of ProcTHOR describes, and notes on the omitted parts.

    Args:
        values: Contents of the file.
        path: The file, for messages.

    Raises:
        ConfigurationError: If it lacks something, or has walls that are not at right angles.
    """
    try:
        return _parse(values, path)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigurationError(
            f"{path} cannot be read as a house of ProcTHOR: {reason}. Give a file as its "
            "House.to_json writes it."
        ) from None


def _parse(values: dict[str, Any], path: str) -> Layout:
    notes: list[str] = []
    rooms = [
        Outline([_ground(corner) for corner in room["floorPolygon"]]) for room in values["rooms"]
    ]
    walls = {str(wall["id"]): wall for wall in values.get("walls") or []}
    sides = [line for room in rooms for line in edges_of(room.corners)]
    lines = cut(sides, _open_sides(walls))
    doors = _doors(values.get("doors") or [], walls, lines, notes)
    things = list(_things(values.get("objects") or [], notes))
    _note_rest(values, walls, notes)
    return Layout(
        path=path,
        names=[str(room.get("id", number)) for number, room in enumerate(values["rooms"])],
        plan=make_plan(rooms, lines, doors),
        things=things,
        paints=[_paint(room, walls.values()) for room in values["rooms"]],
        starts=[],
        notes=notes,
        is_imported=True,
    )


def _open_sides(walls: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """Return where two rooms are joined without a wall: where both walls are empty."""
    empty = [line for wall in walls.values() if wall.get("empty") for line in _base(wall)]
    return [
        line
        for number, line in enumerate(empty)
        if any(_share(line, other) for other in empty[:number] + empty[number + 1 :])
    ]


def _base(wall: Mapping[str, Any]) -> list[Line]:
    return edges_of(_ends(wall))[:1]


def _share(one: Line, other: Line) -> bool:
    """Return whether two lines overlap."""
    return is_on(one, other) and one.low < other.high and other.low < one.high


def _ends(wall: Mapping[str, Any]) -> list[Point]:
    """Return the lower corners of a wall, in their order."""
    lowest = min(_number(corner["y"]) for corner in wall["polygon"])
    low = [_ground(one) for one in wall["polygon"] if _number(one["y"]) < lowest + 0.01]
    return low[:2]


def _doors(
    doors: Sequence[Mapping[str, Any]],
    walls: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Line],
    notes: list[str],
) -> list[Line]:
    gaps: list[Line] = []
    outer = leaves = lost = 0
    for door in doors:
        names = str(door["wall0"]), str(door.get("wall1") or "exterior")
        if any("exterior" in name for name in names):
            outer += 1
            continue
        hole = door.get("holePolygon") or [door["boundingBox"][end] for end in ("min", "max")]
        (x0, y0), (x1, y1) = _ends(walls[names[0]])
        length = math.hypot(x1 - x0, y1 - y0)
        low, high = (min(max(_number(end["x"]), 0.0), length) for end in hole[:2])
        at = [(x0 + (x1 - x0) * far / length, y0 + (y1 - y0) * far / length) for far in (low, high)]
        (gap,) = edges_of(at)[:1]
        around = [line for line in lines if _share(line, gap)]
        if not around or cut([gap], gaps) != [gap]:
            lost += 1
            continue
        # ProcTHOR's walls are thinner, and their doors may reach into a corner.
        low = max(gap.low, min(line.low for line in around) + WALL_HALF)
        high = min(gap.high, max(line.high for line in around) - WALL_HALF)
        gaps.append(gap._replace(low=low, high=high))
        leaves += "openness" in door
    if outer:
        notes.append(f"{_count(outer, 'door')} to the outside, here walls")
    if leaves:
        notes.append(f"the leaves of {_count(leaves, 'door')}, which stand open")
    if lost:
        notes.append(f"{_count(lost, 'door')} in no wall, or in one another")
    return gaps


def _things(objects: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[Placed]:
    unknown, boxes, turned, tilted, high = (Counter[str]() for _ in range(5))
    items = [_Item(values, type_of(values), 0.0) for values in objects]
    while items:
        item = items.pop(0)
        values, name = item.values, item.type_name
        if name not in SIZES_M:
            unknown[str(values["assetId"])] += 1
            size, z = (0.0, 0.0, 0.0), None
        else:
            size, z = _size_and_height(item)
            angles = {axis: _number((values.get("rotation") or {}).get(axis, 0)) for axis in "xyz"}
            quarters = round(angles["y"] / 90)
            rest = math.radians(angles["y"] - 90 * quarters)
            turned[name] += abs(math.sin(rest)) > 0.02
            tilted[name] += any(abs(math.sin(math.radians(angles[axis]))) > 0.02 for axis in "xz")
            boxes[name] += name not in _CLASS_OF
            if z < CEILING_HEIGHT - 0.01:
                yield _placed(values, name, (*_around(size, rest), size[2]), z, quarters)
            else:
                high[name] += 1
        top = None if z is None else z + size[2]
        items += [_Item(child, type_of(child), top) for child in values.get("children") or []]
    for what, names in (
        ("left out, of an unknown type", unknown),
        ("left out, above the ceiling", high),
        ("drawn as a box", boxes),
        ("made larger, for an oblique angle", turned),
        ("set upright, from lying or leaning", tilted),
    ):
        if total := sum(names.values()):
            some = [name for name, count in names.most_common() if count]
            more = ", ..." if len(some) > 4 else ""
            notes.append(f"{what}: {_count(total, 'object')} ({', '.join(some[:4])}{more})")


def _size_and_height(item: _Item) -> tuple[tuple[float, float, float], float]:
    """Return an object's width, depth and height, and the height of its underside.

    Its position is its centre's, so that it gives the height of a thing on the floor.
    """
    width, depth, height = SIZES_M[item.type_name]
    middle = _number(item.values["position"]["y"])
    if item.floor == 0.0 and 0.6 * height < 2 * middle < 1.6 * height:
        return (width, depth, 2 * middle), 0.0
    z = max(middle - height / 2, 0.0)
    if item.floor is not None and abs(z - item.floor) < _DROP_M:
        z = item.floor
    return (width, depth, height), z


def _around(size: tuple[float, float, float], rest: float) -> tuple[float, float]:
    """Return the sides of an upright rectangle around one rotated by an angle in rad."""
    cos, sin = abs(math.cos(rest)), abs(math.sin(rest))
    return size[0] * cos + size[1] * sin, size[0] * sin + size[1] * cos


def _placed(
    values: Mapping[str, Any], name: str, size: tuple[float, float, float], z: float, quarters: int
) -> Placed:
    rng = np.random.Generator(np.random.Philox(key=_BY_LENGTH.index(name)))
    thing: Thing = draw_thing(_CLASS_OF[name], rng) if name in _CLASS_OF else box()
    colour = _colour((values.get("material") or {}).get("color"))
    x, y = _ground(values["position"])
    # A front looks along z there at 0, and along -y here.
    return Placed(fitted(thing, size, colour), x, y, (2 - quarters) % 4, z)


def type_of(values: Mapping[str, Any]) -> str:
    """Return an object's type, the start of its id or else of its asset's name; or ""."""
    first = str(values.get("id", "")).partition("|")[0]
    if first in SIZES_M:
        return first
    letters = re.sub("[^a-z]", "", str(values["assetId"]).lower()).removeprefix("robothor")
    if letters.startswith(("bin", "garbagebin")):
        return "GarbageCan"
    begins = (name for name in _BY_LENGTH if letters.startswith(name.lower()))
    holds = (name for name in _BY_LENGTH if name.lower() in letters)
    return next(begins, None) or next(holds, "")


def _note_rest(
    values: Mapping[str, Any], walls: Mapping[str, Mapping[str, Any]], notes: list[str]
) -> None:
    windows = len(values.get("windows") or [])
    if windows:
        notes.append(f"{_count(windows, 'window')}, here walls")
    lights = len((values.get("proceduralParameters") or {}).get("lights") or [])
    if lights:
        notes.append(f"{_count(lights, 'light')}, in place of which one shines everywhere")
    tops = [_number(corner["y"]) for wall in walls.values() for corner in wall["polygon"]]
    if tops and abs(max(tops) - CEILING_HEIGHT) > 0.05:
        notes.append(f"a ceiling at {max(tops):.1f} m, here at {CEILING_HEIGHT:g} m")


def _paint(room: Mapping[str, Any], walls: Any) -> Paint:
    def colour_of(holder: Mapping[str, Any], key: str) -> Colour | None:
        material = holder.get(key)
        return _colour(material.get("color")) if isinstance(material, Mapping) else None

    of_walls = [
        colour_of(wall, "material") for wall in walls if wall.get("roomId") == room.get("id")
    ]
    return Paint(colour_of(room, "floorMaterial"), next(filter(None, of_walls), None))


def _colour(values: Any) -> Colour | None:
    if not isinstance(values, Mapping):
        return None
    red, green, blue = (min(max(_number(values[name]), 0.0), 1.0) for name in "rgb")
    return red, green, blue


def _ground(point: Mapping[str, Any]) -> Point:
    return _number(point["x"]), _number(point["z"])


def _number(value: Any) -> float:
    number = float(value)
    if not abs(number) <= _MOST:
        raise ValueError(f"{value} is not a length in m")
    return number


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
