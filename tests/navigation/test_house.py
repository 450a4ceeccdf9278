"""Houses: the same everywhere, connected, and with goals that can be reached."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from envlab_navigation.floor_plan import DOOR_WIDTH, draw_floor_plan
from envlab_navigation.furniture import CLASSES, FIRST_TARGET, TARGETS
from envlab_navigation.house import (
    AGENT_RADIUS,
    CELL,
    MAX_PRIMITIVES,
    OBJECT_RADIUS,
    largest_region,
    make_house,
)
from tests.navigation.houses import clearance

HOUSES = [make_house(split, index) for split in ("train", "val", "test") for index in range(8)]


def test_a_house_is_a_function_of_split_and_index():
    again = make_house("train", 3)
    for name, values in HOUSES[3]._asdict().items():
        assert np.array_equal(values, getattr(again, name)), name
    digests = {hashlib.sha256(house.walls.tobytes()).hexdigest() for house in HOUSES}
    assert len(digests) == len(HOUSES)


def test_free_cells_are_connected_and_clear_of_everything():
    for house in HOUSES:
        assert np.array_equal(largest_region(house.free), house.free)
        assert house.free.sum() * CELL**2 > 5.0
        at = (np.argwhere(house.free)[:, ::-1] + 0.5) * CELL
        assert clearance(house.walls, house.primitives, at) >= AGENT_RADIUS


def test_the_largest_region_is_joined_by_sides_not_corners():
    cells = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 1, 0], [1, 0, 1, 1]], bool)
    expected = np.array([[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 1, 1]], bool)
    assert np.array_equal(largest_region(cells), expected)
    assert not largest_region(np.zeros((3, 3), bool)).any()
    random = np.random.default_rng(0).random((40, 50)) < 0.6
    scipy = pytest.importorskip("scipy.ndimage", reason="needs scipy: pip install -e '.[compare]'")
    labels, _ = scipy.label(random)
    sizes = np.bincount(labels.ravel())[1:]
    assert np.array_equal(largest_region(random), labels == 1 + sizes.argmax())


def test_zones_lie_near_their_goals_and_no_wall_is_between():
    for house in HOUSES:
        shapes = house.primitives
        for goal in range(len(TARGETS)):
            zone = np.argwhere(house.zones[goal])
            instances = shapes[(shapes[:, 7] == FIRST_TARGET + goal) & (shapes[:, 2] > 0), :2]
            assert len(zone) == 0 or len(instances)
            if len(zone):
                at = (zone[:, ::-1] + 0.5) * CELL
                away = np.linalg.norm(at[:, None] - instances[None], axis=2).min(axis=1)
                assert away.max() <= OBJECT_RADIUS + 0.13  # a laptop's screen is not in its middle
        for point, zone in zip(house.points, house.zones[len(TARGETS) :], strict=True):
            assert zone[int(point[1] / CELL), int(point[0] / CELL)]


def test_most_houses_have_most_classes():
    found = [house.zones[: len(TARGETS)].any(axis=(1, 2)) for house in HOUSES]
    assert np.mean(found) > 0.6
    assert all((house.primitives[:, 2] > 0).sum() <= MAX_PRIMITIVES for house in HOUSES)
    assert len(CLASSES) == 23


def test_every_wall_between_rooms_has_a_door_that_fits():
    for seed in range(20):
        plan = draw_floor_plan(np.random.default_rng(seed))
        assert len(plan.doors) >= len(plan.rooms) - 1
        for door in plan.doors:
            assert 2 * max(door.half_x, door.half_y) == pytest.approx(DOOR_WIDTH)
