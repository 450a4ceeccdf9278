"""Distances against Dijkstra's algorithm with 16 neighbours, and by hand."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab_navigation.geodesics import UNREACHABLE
from envlab_navigation.house import CELL
from tests.navigation.houses import load

STEPS = [
    (i, j, math.hypot(i, j) * CELL)
    for i in range(-2, 3)
    for j in range(-2, 3)
    if (i or j) and math.gcd(i, j) == 1
]


def dijkstra(free: np.ndarray, zone: np.ndarray) -> np.ndarray:
    """Return distances in m; a long step also needs the cells that it passes."""
    distance = np.where(zone, 0.0, np.inf)
    queue = [(0.0, int(i), int(j)) for i, j in np.argwhere(zone)]
    while queue:
        far, i, j = heapq.heappop(queue)
        if far > distance[i, j]:
            continue
        for di, dj, length in STEPS:
            u, v = i + di, j + dj
            passes = free[i + di // 2, j + dj // 2] and free[i - -di // 2, j - -dj // 2]
            if free[u, v] and passes and far + length < distance[u, v]:
                distance[u, v] = far + length
                heapq.heappush(queue, (far + length, u, v))
    return distance


def test_distances_are_within_a_tenth_of_dijkstras():
    ratios = []
    for index, goal in ((0, 13), (1, 16), (2, 0)):
        house = load("train", index)
        field = house["fields"][goal] / 1000.0
        expected = dijkstra(house["free"], field == 0)
        far = house["free"] & (expected > 1.0)
        assert np.isfinite(expected[far]).all()
        ratios.append(field[far] / expected[far])
    ratio = np.concatenate(ratios)
    assert 0.97 < np.median(ratio) < 1.05
    low, high = np.percentile(ratio, [1, 99])
    assert low > 0.9
    assert high < 1.1


def test_unreachable_places_are_far_but_two_cells_beyond_the_free_ones_are_not():
    for index in range(3):
        fields = load("train", index)["fields"]
        assert fields.min() >= 0
        assert fields.max() == UNREACHABLE
        free = load("train", index)["free"]
        there = fields.min(axis=(1, 2)) == 0
        assert (fields[there][:, free] < UNREACHABLE).all()
        assert (fields[~there] == UNREACHABLE).all()
    house = load("train", 0)
    field, free = house["fields"][12], house["free"]
    beyond = (field < UNREACHABLE) & ~free
    rows, columns = np.argwhere(free).T
    for i, j in np.argwhere(beyond)[::40]:
        assert np.maximum(abs(rows - i), abs(columns - j)).min() in (1, 2)
