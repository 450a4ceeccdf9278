"""Intervals of means, shares and rates, against published numbers."""

from __future__ import annotations

import numpy as np
import pytest

from envlab.training.intervals import mean_interval, rate_interval


def test_a_share_has_wilsons_interval():
    # Newcombe (1998), table I: 81 of 263; and no episode of 20 failed
    assert mean_interval(np.repeat([1.0, 0.0], [81, 182])) == pytest.approx(
        (0.2553, 0.3662), abs=1e-4
    )
    low, high = mean_interval(np.ones(20))
    assert (round(low, 3), high) == (0.839, 1.0)


def test_a_rate_has_garwoods_interval():
    # Garwood (1936): limits of 0 and of 5 events
    assert rate_interval(0, 1.0) == pytest.approx((0.0, 3.6889), abs=1e-4)
    assert rate_interval(5, 2.0) == pytest.approx((1.6235 / 2, 11.6683 / 2), abs=1e-4)


def test_a_mean_has_the_normal_interval_of_many_and_the_same_each_time():
    values = np.random.default_rng(1).normal(3.0, 2.0, 2000)
    half = 1.96 * values.std() / 2000**0.5
    found = mean_interval(values)
    assert found == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)
    assert found == mean_interval(values)
    assert mean_interval(np.full(5, 2.5)) == (2.5, 2.5)
