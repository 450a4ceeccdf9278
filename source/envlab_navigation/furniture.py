"""Furniture and objects as upright boxes, cylinders and spheres, and the classes they belong to.

The twelve target classes are those of RoboTHOR's ObjectNav challenge (Deitke et al., "RoboTHOR: An
Open Simulation-to-Real Embodied AI Platform", CVPR 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FLOOR, CEILING, WALL, DOOR = range(4)
FURNITURE = ("Table", "Chair", "Sofa", "Bed", "Shelf", "Stand")
TARGETS = (
    *("AlarmClock", "Apple", "BaseballBat", "BasketBall", "Bowl", "GarbageCan"),
    *("HousePlant", "Laptop", "Mug", "SprayBottle", "Television", "Vase"),
)
OTHER = "Other"
"""A thing of a house file without a class."""
CLASSES = ("Floor", "Ceiling", "Wall", "Door", *FURNITURE, OTHER, *TARGETS)
FIRST_TARGET = len(CLASSES) - len(TARGETS)

ON_FLOOR = ("BaseballBat", "BasketBall", "GarbageCan", "HousePlant")
"""Targets that stand on the floor; others stand on furniture."""
ON_STAND = ("Television",)
"""Targets that stand on a stand only."""

BOX, CYLINDER, SPHERE = range(3)
Colour = tuple[float, float, float]


class Part(NamedTuple):
    """An upright primitive, in the frame of its thing: its back is at +y, and z counts from below.

    A cylinder's or sphere's half sizes are its radius.
    """

    kind: int
    x: float
    y: float
    half_x: float
    half_y: float
    low: float
    high: float
    colour: Colour


class Thing(NamedTuple):
    """A piece of furniture or an object."""

    name: str
    parts: list[Part]
    surface: float | None = None
    """Height at which objects can stand on it, in m."""

    @property
    def half_x(self) -> float:
        """Half the width."""
        return max(abs(part.x) + part.half_x for part in self.parts)

    @property
    def half_y(self) -> float:
        """Half the depth."""
        return max(abs(part.y) + part.half_y for part in self.parts)


def draw_thing(name: str, rng: np.random.Generator) -> Thing:
    """Return a thing of a class, whose size and colour vary."""
    if name in _FURNITURE:
        wood = _scaled((0.55, 0.38, 0.22), rng.uniform(0.7, 1.25))
        cloth = tuple(rng.uniform(0.25, 0.85, 3).tolist())
        return _FURNITURE[name](rng, wood, cloth)
    tint = rng.uniform(0.85, 1.15)
    parts = [part._replace(colour=_scaled(part.colour, tint)) for part in _OBJECTS[name]]
    return Thing(name, parts)


def box(colour: Colour | None = None) -> Thing:
    """Return a box of 1 m on each side: a thing without a class."""
    return Thing(OTHER, [Part(BOX, 0, 0, 0.5, 0.5, 0, 1, colour or (0.6, 0.6, 0.62))])


def fitted(
    thing: Thing, size: tuple[float, float, float] | None, colour: Colour | None = None
) -> Thing:
    """Return a thing with the given width, depth and height, in m, and in one colour.

    Cylinders and spheres stay round: they take the smaller of the two widths.
    """
    if size is None:
        x, y, z = 1.0, 1.0, 1.0
    else:
        x, y = size[0] / (2 * thing.half_x), size[1] / (2 * thing.half_y)
        z = size[2] / max(part.high for part in thing.parts)
    parts = []
    for part in thing.parts:
        wide, deep = (x, y) if part.kind == BOX else (min(x, y), min(x, y))
        half_x, half_y, low = wide * part.half_x, deep * part.half_y, z * part.low
        high = low + 2 * half_x if part.kind == SPHERE else z * part.high
        moved = Part(part.kind, x * part.x, y * part.y, half_x, half_y, low, high, part.colour)
        parts.append(moved._replace(colour=colour or part.colour))
    surface = None if thing.surface is None else z * thing.surface
    return Thing(thing.name, parts, surface)


def _scaled(colour: Colour, factor: float) -> Colour:
    red, green, blue = (min(float(value * factor), 1.0) for value in colour)
    return red, green, blue


def _table(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    width, depth = rng.uniform(0.5, 0.75), rng.uniform(0.35, 0.45)
    sides = [
        Part(BOX, side * (width - 0.05), 0, 0.04, depth * 0.9, 0, 0.66, _scaled(wood, 0.8))
        for side in (-1, 1)
    ]
    top = Part(BOX, 0, 0, width, depth, 0.66, 0.72, wood)
    return Thing("Table", [top, *sides], surface=0.72)


def _chair(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    seat = Part(BOX, 0, 0, 0.22, 0.22, 0.4, 0.46, cloth)
    back = Part(BOX, 0, 0.2, 0.22, 0.03, 0.46, 0.95, cloth)
    leg = Part(CYLINDER, 0, 0, 0.05, 0.05, 0, 0.4, _scaled(wood, 0.5))
    return Thing("Chair", [seat, back, leg])


def _sofa(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    width = rng.uniform(0.75, 1.0)
    seat = Part(BOX, 0, 0, width - 0.18, 0.4, 0, 0.42, cloth)
    back = Part(BOX, 0, 0.3, width - 0.18, 0.1, 0.42, 0.85, _scaled(cloth, 0.85))
    arms = [
        Part(BOX, side * (width - 0.09), 0, 0.09, 0.4, 0, 0.6, _scaled(cloth, 0.9))
        for side in (-1, 1)
    ]
    return Thing("Sofa", [seat, back, *arms])


def _bed(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    width = rng.uniform(0.5, 0.8)
    mattress = Part(BOX, 0, 0, width, 0.95, 0, 0.5, cloth)
    head = Part(BOX, 0, 0.9, width, 0.05, 0.5, 1.0, wood)
    return Thing("Bed", [mattress, head], surface=0.5)


def _shelf(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    width = rng.uniform(0.35, 0.55)
    boards = [Part(BOX, 0, 0, width, 0.16, low, low + 0.04, wood) for low in (0.45, 0.86)]
    ends = [Part(BOX, side * width, 0, 0.03, 0.16, 0, 1.2, _scaled(wood, 0.85)) for side in (-1, 1)]
    return Thing("Shelf", [*boards, *ends], surface=0.9)


def _stand(rng: np.random.Generator, wood: Colour, cloth: Colour) -> Thing:
    width = rng.uniform(0.45, 0.65)
    return Thing("Stand", [Part(BOX, 0, 0, width, 0.2, 0, 0.5, _scaled(wood, 0.9))], surface=0.5)


_FURNITURE: dict[str, Callable[[np.random.Generator, Colour, Colour], Thing]] = {
    "Table": _table,
    "Chair": _chair,
    "Sofa": _sofa,
    "Bed": _bed,
    "Shelf": _shelf,
    "Stand": _stand,
}


def _round(kind: int, radius: float, low: float, high: float, colour: Colour) -> Part:
    return Part(kind, 0, 0, radius, radius, low, high, colour)


_OBJECTS: dict[str, list[Part]] = {
    "AlarmClock": [Part(BOX, 0, 0, 0.1, 0.06, 0, 0.17, (0.85, 0.1, 0.25))],
    "Apple": [_round(SPHERE, 0.07, 0, 0.14, (0.75, 0.75, 0.1))],
    "BaseballBat": [_round(CYLINDER, 0.045, 0, 0.95, (0.9, 0.7, 0.4))],
    "BasketBall": [_round(SPHERE, 0.14, 0, 0.28, (0.95, 0.45, 0.1))],
    "Bowl": [_round(CYLINDER, 0.13, 0, 0.09, (0.55, 0.8, 0.95))],
    "GarbageCan": [_round(CYLINDER, 0.17, 0, 0.45, (0.25, 0.28, 0.3))],
    "HousePlant": [
        _round(CYLINDER, 0.14, 0, 0.28, (0.7, 0.35, 0.2)),
        _round(SPHERE, 0.22, 0.28, 0.72, (0.1, 0.55, 0.15)),
    ],
    "Laptop": [
        Part(BOX, 0, 0, 0.19, 0.13, 0, 0.03, (0.7, 0.7, 0.72)),
        Part(BOX, 0, 0.12, 0.19, 0.012, 0.03, 0.28, (0.15, 0.35, 0.8)),
    ],
    "Mug": [_round(CYLINDER, 0.06, 0, 0.14, (0.95, 0.95, 0.9))],
    "SprayBottle": [
        _round(CYLINDER, 0.05, 0, 0.2, (0.1, 0.8, 0.8)),
        _round(CYLINDER, 0.02, 0.2, 0.28, (0.9, 0.2, 0.2)),
    ],
    "Television": [
        Part(BOX, 0, 0, 0.45, 0.04, 0.04, 0.6, (0.05, 0.05, 0.07)),
        Part(BOX, 0, 0, 0.12, 0.1, 0, 0.04, (0.1, 0.1, 0.1)),
    ],
    "Vase": [_round(CYLINDER, 0.09, 0, 0.34, (0.6, 0.2, 0.7))],
}
