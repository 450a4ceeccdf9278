"""Houses in memory: their rotation, and no episode outlives its house."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from tests.navigation.houses import load, make_set
from tests.refusals import check_refusals

SLOTS, EVERY, EPISODE = 5, 3, 7


def rotating(num_houses: int = 8):
    return make_set(num_houses, num_slots=SLOTS, rotate_every=EVERY, max_episode_length=EPISODE)


def held(houses) -> list[int]:
    """Return the house in each slot, and check that the slot has its arrays."""
    numbers = [houses.number_of(slot) for slot in range(houses.num_slots)]
    for walls, number in zip(houses.arrays["walls"], numbers, strict=True):
        assert torch.equal(walls, torch.tensor(load("train", number)["walls"]))
    return numbers


def test_houses_that_fit_stay():
    houses = make_set(3, first_house=4)
    assert not houses.rotates
    for step in range(1, 200):
        houses.advance(step)
    assert [houses.number_of(slot) for slot in range(3)] == [4, 5, 6]
    assert houses.num_open == 3


def test_all_houses_take_their_turns_and_episodes_end_before_their_house_goes():
    houses = rotating()
    tensors = [*houses.arrays.values(), houses.open_slots]
    seen, living = set(), {}  # by slot: the last step of episodes that began in it
    for step in range(1, 80):
        before = [houses.number_of(slot) for slot in range(SLOTS)]
        houses.advance(step)
        now = [houses.number_of(slot) for slot in range(SLOTS)]
        for slot in range(SLOTS):
            if now[slot] != before[slot]:
                assert living.get(slot, 0) < step
        assert houses.num_open >= 1
        for slot in houses.open_slots[: houses.num_open].tolist():
            living[slot] = step + EPISODE
        seen |= set(now)
    assert seen == set(range(8))
    pairs = zip(tensors, (*houses.arrays.values(), houses.open_slots), strict=True)
    assert all(old.data_ptr() == new.data_ptr() for old, new in pairs)  # tensors stay in place


def test_the_houses_in_memory_depend_on_the_steps_alone():
    going, jumping = rotating(), rotating()
    for step in range(1, 40):
        going.advance(step)
        if step % 13 == 0:
            jumping.set_clock(step)
            assert held(going) == held(jumping)
            assert torch.equal(going.open_slots, jumping.open_slots)
            assert torch.equal(going.offers, jumping.offers)
            assert going.num_open == jumping.num_open


def test_a_house_offers_the_goals_that_have_a_start_in_the_range():
    houses = make_set(1)
    fields, free = load("train", 0)["fields"], load("train", 0)["free"]
    for goal in range(20):
        fits = goal >= 12 and ((fields[goal] >= 1000) & free).any()
        assert bool(houses.offers[0, goal]) == fits


def test_houses_that_do_not_exist_or_do_not_fit_are_refused():
    few = {"num_houses": 9, "num_slots": 2, "rotate_every": 10}
    check_refusals(
        lambda fields: make_set(**({"num_houses": 2} | fields)),
        [
            ({"num_houses": 0}, "env.houses.num_houses is 0, but must be greater than 0"),
            ({"first_house": -1}, "env.houses.first_house is -1, but must be at least 0"),
            (few, "num_slots is 2, but episodes of 20"),
        ],
    )
