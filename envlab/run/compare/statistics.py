"""Statistics over seeds: interquartile means, bootstrap intervals, and curves on a common grid.

They follow Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(NeurIPS 2021, arXiv:2108.13264): the interquartile mean (IQM) instead of the mean, which one lucky
seed moves, or the median, which ignores most seeds; and percentile bootstrap intervals that
resample whole runs. Their bootstrap is stratified by task; here all runs are of one task.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000
NUM_POINTS = 500
_BATCH = 100
"""Resamples at a time: 10 runs of 500 points then take 4 MB rather than 80."""


@dataclass(kw_only=True)
class SeedCurve:
    """A metric over the runs of a group."""

    x: np.ndarray
    """Frames or seconds, ``(num_points,)``."""
    middle: np.ndarray
    """Interquartile mean over runs, ``(num_points,)``."""
    interval: tuple[np.ndarray, np.ndarray] | None
    """Lower and upper bound, each ``(num_points,)``; None for a single run."""


def require(module: str, purpose: str = "Comparing runs", extra: str = "compare") -> Any:
    """Import a module that not every installation has.

    Args:
        module: Its name.
        purpose: The feature that needs it.
        extra: The extra in pyproject.toml that has it.

    Raises:
        ConfigurationError: If its package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{purpose} needs the package {error.name!r}, which is not installed. Install it with: "
            f"pip install -c constraints.txt -e '.[{extra}]'"
        ) from error


def interquartile_mean(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the mean along an axis without the lowest and highest quarter, rounded down.

    Fewer than four values are all kept, so the result is their mean.
    """
    return require("scipy.stats").trim_mean(values, 0.25, axis=axis)


def bootstrap_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the interquartile mean over runs, the same at each call.

    A resample draws whole runs, so all points of a curve see the same ones.

    Args:
        values: ``(num_runs, ...)``, of two runs or more.

    Returns:
        Lower and upper bound, each of the shape of ``values[0]``.
    """
    interval = (
        require("scipy.stats")
        .bootstrap(
            (values,),
            interquartile_mean,
            axis=0,
            vectorized=True,
            n_resamples=NUM_RESAMPLES,
            batch=_BATCH,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(0),
        )
        .confidence_interval
    )
    return interval.low, interval.high


def improvement_interval(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float, float]:
    """Return the probability that a run of ours beats a run of theirs, and its interval's bounds.

    Agarwal et al. (2021), section 4.3, for one task: the share of pairs won, a tie counting half.
    """
    return float(_share_won(ours, theirs)), *_interval_of_two(_share_won, ours, theirs)


def difference_interval(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return bounds of the difference of two groups' interquartile means."""

    def difference(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
        return interquartile_mean(ours, axis) - interquartile_mean(theirs, axis)

    return _interval_of_two(difference, ours, theirs)


def permutation_p(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the two-sided p of two groups of runs by an exact permutation test.

    The statistic is the share of pairs won, Mann and Whitney's. If nothing differs, each division
    of the runs into two groups is as likely as the one seen, so that p is at most 5 % in no more
    than 5 % of cases, however the returns are distributed. Two groups of five cannot have a p below
    0.0079, two of three none below 0.1.
    """
    stats = require("scipy.stats")
    has_ties = len(np.unique([*ours, *theirs])) < len(ours) + len(theirs)
    # scipy's exact distribution holds without ties; with ties, all divisions are enumerated.
    method = stats.PermutationMethod(n_resamples=np.inf, batch=10_000) if has_ties else "exact"
    return float(stats.mannwhitneyu(ours, theirs, method=method).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """Return p values that account for each other: Holm's step-down method (1979)."""
    adjusted, last = [0.0] * len(values), 0.0
    for rank, index in enumerate(np.argsort(values, kind="stable")):
        last = max(last, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = last
    return adjusted


def _share_won(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the share of pairs in which ours is larger, a tie counting half."""
    pairs = ours[..., :, None] - theirs[..., None, :]
    return (0.5 + 0.5 * np.sign(pairs)).mean(axis=(-1, -2))


def _interval_of_two(
    statistic: Callable[..., np.ndarray], ours: np.ndarray, theirs: np.ndarray
) -> tuple[float, float]:
    """Return bounds of a statistic of two groups of runs, each of which is resampled."""
    draw = np.random.default_rng(0)
    values = [
        group[draw.integers(len(group), size=(NUM_RESAMPLES, len(group)))]
        for group in (ours, theirs)
    ]
    outside = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(statistic(*values), [outside, 100.0 - outside])
    return float(low), float(high)


def shared_range(xs: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Return the first and last frame or second that all runs have; None if there is none.

    Args:
        xs: Increasing frames or seconds of each run, ``(num_values,)``; lengths may differ.
    """
    start, end = max(x[0] for x in xs), min(x[-1] for x in xs)
    return (start, end) if start <= end else None


def over_seeds(
    xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], num_points: int = NUM_POINTS
) -> SeedCurve | None:
    """Return the curve of several runs, over the range that all of them have.

    Args:
        xs: Increasing frames or seconds of each run, ``(num_values,)``; lengths may differ.
        ys: The metric at these.
        num_points: Number of grid points.

    Returns:
        The curve, linearly interpolated onto a common grid; for a single run, its own points. None
        if the runs share no range.
    """
    if len(xs) == 1:
        return SeedCurve(x=xs[0], middle=ys[0], interval=None)
    shared = shared_range(xs)
    if shared is None:
        return None
    grid = np.linspace(*shared, num_points if shared[0] < shared[1] else 1)
    values = np.stack([np.interp(grid, x, y) for x, y in zip(xs, ys, strict=True)])
    return SeedCurve(x=grid, middle=interquartile_mean(values), interval=bootstrap_interval(values))
