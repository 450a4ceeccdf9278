"""Intervals of 95 %: of means, of shares, and of what happens now and then."""

from __future__ import annotations

import numpy as np

Interval = tuple[float, float]
CONFIDENCE = 0.95
NUM_RESAMPLES = 9999
_BATCH = 500
"""Resamples at a time: 4 MB for 1,024 episodes."""


def mean_interval(values: np.ndarray) -> Interval:
    """Return the BCa bootstrap's interval of a mean (Efron, 1987), ``(num_episodes,)``.

    Shares of episodes, all 0 or 1, have Wilson's (1927), which is right also if all are alike.
    """
    from scipy import stats  # half a second

    if np.isin(values, (0.0, 1.0)).all():
        found = stats.binomtest(int(values.sum()), len(values)).proportion_ci(CONFIDENCE, "wilson")
        return float(found.low), float(found.high)
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=NUM_RESAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def rate_interval(count: int, time: float) -> Interval:
    """Return Garwood's exact interval (1936) of a Poisson process's rate.

    Args:
        count: Events.
        time: How long they were counted.
    """
    from scipy import stats

    tail = 0.5 * (1.0 - CONFIDENCE)
    low = stats.chi2.ppf(tail, 2 * count) if count else 0.0
    return 0.5 * float(low) / time, 0.5 * float(stats.chi2.ppf(1.0 - tail, 2 * count + 2)) / time
