"""Which member copies which, and how hyper-parameters change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envlab_populations.population.cfg import PopulationCfg
from envlab_populations.population.ranges import Span, first_values
from envlab_populations.population.strategy import Strategy, ranking
from envlab_populations.population.tournament import Tournament
from envlab_populations.population.truncation import Truncation

RATE = Span(path="agent.rate", low=1e-4, high=1e-2, is_log=True, start=(1e-4, 1e-2))
EPOCHS = Span(path="agent.epochs", low=1, high=8, is_whole=True, start=(1, 8))
CHOICE = Span(path="agent.size", low=2, high=8, is_whole=True, start=(2, 8), choices=(2, 4, 8))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def copies_of(
    fitness: list[float | None], kind: type[Strategy] = Truncation, **values: object
) -> list[tuple[int, int]]:
    cfg = PopulationCfg(size=len(fitness), **values)  # type: ignore[arg-type]
    return list(kind(cfg).pairs(ranking(fitness), rng()))


def test_the_first_of_equal_members_is_the_fitter():
    assert ranking([1.0, 2.0, 2.0, None, math.nan]) == [4, 0, 2, 1]


def test_the_bottom_copies_the_top():
    assert copies_of([3.0, 1.0, 2.0, 4.0]) == [(1, 3)]
    pairs = copies_of([3.0, 1.0, 2.0, 4.0], exploit=0.5)
    assert [target for target, _ in pairs] == [1, 2]
    assert {source for _, source in pairs} <= {0, 3}


def test_a_member_without_an_episode_stays_and_a_diverged_one_is_replaced():
    assert copies_of([None, 1.0, 2.0, None]) == [(1, 2)]
    assert copies_of([math.nan, 1.0, 2.0, 0.5]) == [(0, 2)]
    assert copies_of([None, None, 2.0, None]) == []


def test_in_tournaments_the_fittest_stays_and_the_fitter_contender_is_copied():
    pairs = copies_of([3.0, 1.0, None, 4.0], Tournament, tournament_size=3)
    assert [target for target, _ in pairs] == [1, 0]
    assert {source for _, source in pairs} <= {0, 1, 3}
    assert copies_of([None, None, 2.0, None], Tournament) == []
    draws = rng().integers(4, size=(3, 2))
    scores = [3.0, 1.0, 2.0, 4.0]
    assert [source for _, source in copies_of([*scores], Tournament)] == [
        max(map(int, row), key=scores.__getitem__) for row in draws
    ]


def test_first_values_spread_over_decades_and_stay_within_the_start():
    drawn = [first_values([RATE], np.random.default_rng(i))[RATE.path] for i in range(200)]
    assert 1e-4 <= min(drawn) < 2e-4
    assert 5e-3 < max(drawn) <= 1e-2
    assert 0.35 < sum(one < 1e-3 for one in drawn) / 200 < 0.65
    near = Span(path="agent.rate", low=1e-6, high=1, is_log=True, start=(3e-2, 1e-1))
    drawn = [first_values([near], np.random.default_rng(i))[near.path] for i in range(50)]
    assert min(drawn) >= 3e-2
    assert max(drawn) <= 1e-1


def test_perturbed_numbers_move_by_a_factor_or_to_a_neighbour():
    for span, value, possible in (
        (RATE, 1e-3, {8e-4, 1.2e-3}),
        (RATE, 1e-2, {8e-3, 1e-2}),  # no further than its end
        (EPOCHS, 2, {1, 3}),  # by one, where the factor alone would be rounded away
        (EPOCHS, 8, {6, 8}),
        (CHOICE, 4, {2, 8}),  # its neighbours
        (CHOICE, 8, {4, 8}),
    ):
        cfg = PopulationCfg(size=2)
        found = {span.explored(value, cfg, np.random.default_rng(seed)) for seed in range(20)}
        assert sorted(found) == pytest.approx(sorted(possible)), (span.path, value)


def test_resampled_numbers_are_drawn_from_the_whole_range():
    cfg = PopulationCfg(size=2, explore="resample")
    rates = [RATE.explored(1e-3, cfg, np.random.default_rng(seed)) for seed in range(50)]
    assert min(rates) < 3e-4
    assert max(rates) > 3e-3
