"""Putting furniture into rooms, and objects on furniture and floors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from envlab_navigation.floor_plan import FloorPlan, Rectangle, Room
from envlab_navigation.furniture import FURNITURE, ON_FLOOR, ON_STAND, TARGETS, Thing, draw_thing

FURNITURE_SHARES = (0.22, 0.16, 0.14, 0.14, 0.16, 0.18)
"""Shares of the classes of ``FURNITURE``."""
AREA_PER_PIECE = 3.5
"""Square metres of a room for each piece of furniture, of which there are two to five."""
ABSENT, SECOND = 0.2, 0.25
"""Probabilities that a house has no instance of a target class, and that it has two."""
GAP = 0.08
"""Gap between things, and to walls, in m."""
DOOR_CLEARANCE = 0.75
"""Free space on both sides of a door, in m."""
TRIES = 12
"""Number of random places for a thing before it is dropped."""
OBJECT_GAP = 0.35
"""Distance between objects on furniture, in m."""


class Placed(NamedTuple):
    """A thing that stands somewhere, turned by quarter turns to the left."""

    thing: Thing
    x: float
    y: float
    turn: int = 0
    z: float = 0.0

    @property
    def footprint(self) -> Rectangle:
        """The part of the floor that it covers."""
        half_x, half_y = _turned(self.thing, self.turn)
        return Rectangle(self.x, self.y, half_x, half_y)


def furnish(plan: FloorPlan[Room], rng: np.random.Generator) -> list[Placed]:
    """Return the things of a house."""
    furnisher = _Furnisher(plan, rng)
    for room in plan.rooms:
        count = int(np.clip(room.area / AREA_PER_PIECE, 2, 5))
        for name in rng.choice(FURNITURE, count, p=FURNITURE_SHARES):
            furnisher.put_on_floor(str(name), room, at_wall=name != "Chair")
    for name in TARGETS:
        if rng.random() < ABSENT:
            continue
        for _ in range(1 + int(rng.random() < SECOND)):
            if name in ON_FLOOR:
                room = plan.rooms[rng.integers(len(plan.rooms))]
                furnisher.put_on_floor(name, room, at_wall=name != "BasketBall")
            else:
                furnisher.put_on_furniture(name)
    return furnisher.placed


class _Furnisher:
    def __init__(self, plan: FloorPlan[Room], rng: np.random.Generator) -> None:
        self._doors, self._rng = plan.doors, rng
        self.placed: list[Placed] = []

    def put_on_floor(self, name: str, room: Room, *, at_wall: bool) -> None:
        """Put a thing into a room, clear of doors and other things, or leave it out."""
        rng, thing = self._rng, draw_thing(name, self._rng)
        for _ in range(TRIES):
            turn = int(rng.integers(4))
            half_x, half_y = _turned(thing, turn)
            x0, y0 = room.x0 + half_x + GAP, room.y0 + half_y + GAP
            x1, y1 = room.x1 - half_x - GAP, room.y1 - half_y - GAP
            if x1 <= x0 or y1 <= y0:
                continue
            x, y = float(rng.uniform(x0, x1)), float(rng.uniform(y0, y1))
            if at_wall:  # back to the wall; the back is at +y before the turn
                x, y = ((x, y1), (x0, y), (x, y0), (x1, y))[turn]
            placed = Placed(thing, x, y, turn)
            if self._is_free(placed.footprint):
                self.placed.append(placed)
                return

    def put_on_furniture(self, name: str) -> None:
        """Put an object on a table, bed, shelf or stand, away from others, or leave it out."""
        rng, thing = self._rng, draw_thing(name, self._rng)
        tops = [
            one
            for one in self.placed
            if one.thing.surface is not None and (one.thing.name == "Stand" or name not in ON_STAND)
        ]
        for index in rng.permutation(len(tops)):
            below = tops[index]
            half_x, half_y = _turned(thing, below.turn)
            top = below.footprint
            x = top.x + float(rng.uniform(-1, 1)) * max(top.half_x - half_x - 0.03, 0.0)
            y = top.y + float(rng.uniform(-1, 1)) * max(top.half_y - half_y - 0.03, 0.0)
            if not any(
                one.z > 0 and abs(one.x - x) + abs(one.y - y) < OBJECT_GAP for one in self.placed
            ):
                self.placed.append(Placed(thing, x, y, below.turn, below.thing.surface or 0.0))
                return

    def _is_free(self, wanted: Rectangle) -> bool:
        if any(
            _is_near(wanted, (door.x, door.y, 0.0, 0.0), DOOR_CLEARANCE) for door in self._doors
        ):
            return False
        return not any(one.z == 0 and _is_near(wanted, one.footprint, GAP) for one in self.placed)


def _turned(thing: Thing, turn: int) -> tuple[float, float]:
    """Return half sizes along x and y of a thing after quarter turns."""
    sizes = thing.half_x, thing.half_y
    return sizes if turn % 2 == 0 else sizes[::-1]


def _is_near(one: Rectangle, other: tuple[float, float, float, float], gap: float) -> bool:
    x, y, half_x, half_y = other
    return abs(one.x - x) < one.half_x + half_x + gap and abs(one.y - y) < one.half_y + half_y + gap
