"""Statistics of houses, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envlab_navigation.furniture import CLASSES, FIRST_TARGET, TARGETS
from envlab_navigation.geodesics import UNREACHABLE
from envlab_navigation.house import CELL
from envlab_navigation.house_cache import Arrays

Row = tuple[str, str, str, str]
"""Name of a measure, its mean, smallest and largest value."""


def describe(houses: Sequence[Arrays]) -> list[Row]:
    """Return statistics of houses, with the share of houses that have an instance of a class."""
    rows = [
        _row("rooms", [(house["paints"][:, 0, 4] > 0).sum() for house in houses]),
        _row("floor an agent can reach (m²)", [house["free"].sum() * CELL**2 for house in houses]),
        _row("walls", [_count(house["walls"]) for house in houses]),
        _row("primitives", [_count(house["primitives"]) for house in houses]),
        _row("way to a goal (m)", np.concatenate([_ways(house) for house in houses])),
    ]
    for number, name in enumerate(TARGETS):
        has = [(house["primitives"][:, 7] == FIRST_TARGET + number).any() for house in houses]
        rows.append((f"{name} in a house", f"{np.mean(has):.0%}", "", ""))
    return rows


def goals_of(house: Arrays) -> list[str]:
    """Return the target classes that can be reached in a house."""
    within = house["fields"][: len(TARGETS)].min(axis=(1, 2)) == 0
    return [CLASSES[FIRST_TARGET + number] for number in np.flatnonzero(within)]


def _row(name: str, values: Sequence[float] | np.ndarray) -> Row:
    low, mean, high = np.min(values), np.mean(values), np.max(values)
    return (name, f"{mean:.1f}", f"{low:.1f}", f"{high:.1f}")


def _count(rows: np.ndarray) -> int:
    return int((rows[:, 2] > 0).sum())


def _ways(house: Arrays) -> np.ndarray:
    """Return distances in m between free cells and goals, where there is a path."""
    distances = house["fields"][:, house["free"]]
    return distances[distances < UNREACHABLE] / 1000.0
