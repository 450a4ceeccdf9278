"""Statistics over seeds, against numbers worked out by hand."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from envlab.errors import ConfigurationError
from envlab.run.compare.statistics import (
    NUM_POINTS,
    bootstrap_interval,
    interquartile_mean,
    over_seeds,
    permutation_p,
    require,
    shared_range,
)


def test_the_interquartile_mean_drops_a_quarter_at_each_end():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    for values, mean in [
        ([7.0], 7.0),
        ([1.0, 2.0, 6.0], 3.0),  # a quarter of three is less than one
        ([100.0, 1.0, 3.0, -50.0], 2.0),  # without 100 and -50
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 99.0], 3.5),  # without 0, 1, 6 and 99
    ]:
        assert interquartile_mean(np.array(values)) == pytest.approx(mean)


def test_the_interval_of_two_runs_reaches_from_one_to_the_other():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    # Resamples are (1, 1), (1, 3), (3, 1) and (3, 3): a quarter of them has the mean 1.
    low, high = bootstrap_interval(np.array([1.0, 3.0]))
    assert (low, high) == (1.0, 3.0)


def test_the_interval_narrows_with_runs_and_repeats_itself():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    values = np.random.default_rng(5).normal(size=64)
    widths = [float(np.diff(bootstrap_interval(values[:count]))[0]) for count in (4, 16, 64)]
    assert widths[0] > widths[1] > widths[2]
    assert bootstrap_interval(values) == bootstrap_interval(values)


@pytest.mark.parametrize(
    "values", [[3.0, 4.0, 5.0, 9.0, 1.0, 2.0, 2.5], [1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 0.0]]
)
def test_the_p_of_two_groups_is_that_of_all_their_divisions(values: list[float]):
    def won(ours: list[float], theirs: list[float]) -> float:
        return sum(0.5 * (a >= b) + 0.5 * (a > b) for a in ours for b in theirs)

    shares = [
        won([values[i] for i in chosen], [values[i] for i in range(7) if i not in chosen])
        for chosen in itertools.combinations(range(7), 4)
    ]
    seen = shares[0]  # the first four against the last three
    above = sum(share >= seen for share in shares) / len(shares)
    below = sum(share <= seen for share in shares) / len(shares)
    p = permutation_p(np.array(values[:4]), np.array(values[4:]))
    assert p == pytest.approx(min(1.0, 2.0 * min(above, below)))


def test_all_points_of_a_curve_see_the_same_resamples():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    values = np.random.default_rng(5).normal(size=(6, 1))
    low, high = bootstrap_interval(np.hstack([values, 2 * values + 1]))
    assert low[1] == pytest.approx(2 * low[0] + 1)
    assert high[1] == pytest.approx(2 * high[0] + 1)


def test_curves_are_interpolated_over_the_range_that_all_runs_have():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    xs = [np.array([0.0, 10.0]), np.array([4.0, 8.0, 20.0])]
    ys = [np.array([0.0, 10.0]), np.array([2.0, 6.0, 6.0])]
    curve = over_seeds(xs, ys)
    assert curve is not None
    assert curve.interval is not None
    assert curve.x.shape == curve.interval[0].shape == (NUM_POINTS,)
    assert (curve.x[0], curve.x[-1]) == (4, 10)
    # At 4: (4 + 2) / 2. At 10: (10 + 6) / 2. Up to 8 both rise by 1, so the mean does too.
    assert curve.middle[[0, -1]] == pytest.approx([3, 8])
    before = curve.x <= 8
    assert curve.middle[before] == pytest.approx(curve.x[before] - 1)
    assert (curve.interval[0][0], curve.interval[1][0]) == (2, 4)


def test_a_single_run_keeps_its_points_and_has_no_interval():
    x, y = np.array([1.0, 5.0, 6.0]), np.array([3.0, 2.0, 1.0])
    curve = over_seeds([x], [y])
    assert curve is not None
    np.testing.assert_array_equal(curve.x, x)
    np.testing.assert_array_equal(curve.middle, y)
    assert curve.interval is None


def test_runs_without_a_common_range_have_no_curve():
    early, late = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert shared_range([early, late]) is None
    assert over_seeds([early, late], [early, late]) is None


def test_runs_that_share_one_point_have_a_curve_of_one():
    pytest.importorskip("scipy", reason="needs scipy: pip install -e '.[compare]'")
    curve = over_seeds([np.array([2.0])] * 2, [np.array([1.0]), np.array([3.0])])
    assert curve is not None
    assert (curve.x.tolist(), curve.middle.tolist()) == ([2], [2])


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    hint = r"pip install -c constraints.txt -e '.\[compare\]'"
    with pytest.raises(ConfigurationError, match=hint):
        interquartile_mean(np.ones(3))
    assert require("json").loads("1") == 1
