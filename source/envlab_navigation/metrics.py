"""Measures of navigation over episodes: success, SPL and soft SPL, by class and by distance.

Success and SPL are those of Anderson et al., "On Evaluation of Embodied Navigation Agents" (2018),
soft SPL that of Datta et al., "Integrating Egocentric Localization for More Realistic Point-Goal
Navigation Agents" (2020): see :meth:`NavEnv._measures`. Our shortest path ends at the zone of
arrival, where success begins; AllenAct's ends at the point itself, so that its SPL is higher.

Episodes in one house are not independent, so intervals are from a bootstrap over houses (Field and
Welsh, "Bootstrapping Clustered Data", 2007).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tabulate import tabulate

from envlab_navigation.furniture import TARGETS

MEASURES = ("success", "spl", "soft_spl", "distance_to_goal", "path_length", "collisions", "steps")
ENDS = ("success", "failed_end", "time_out", "non_finite")
"""Ends of episodes: an ``End`` at the goal or elsewhere, the limit of steps, a state that is not
finite."""
BANDS_M = (0.0, 3.0, 6.0, 10.0)
"""Lower ends of the bands of the distance between start and goal."""
DETOUR = 1.1
"""Ratio of the shortest path to the straight line from which on it is a detour, as in Habitat's
data sets, which keep few starts below it ("Habitat: A Platform for Embodied AI Research", 2019)."""
RESAMPLES = 1000
"""Resamples of the bootstrap (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979)."""

Interval = tuple[float, float, float]
"""A mean, and the ends of its 95 % interval."""
Summary = dict[str, dict[str, Any]]
"""By group of episodes: ``num_episodes``, an :data:`Interval` for each of ``MEASURES``, and the
shares of ``ends``."""


def summarise(episodes: Mapping[str, np.ndarray], seed: int = 0) -> Summary:
    """Return means with intervals of all episodes, of each class, and of each band of distance.

    Args:
        episodes: ``info["episodes"]`` of :class:`NavEnv`, ``(num_episodes,)`` each;
            without ``house``, all count as independent.
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    houses = episodes.get("house", np.arange(len(episodes["goal"])))
    return {
        name: {"num_episodes": int(mask.sum())}
        | {measure: _interval(episodes[measure][mask], houses[mask], rng) for measure in MEASURES}
        | {"ends": _shares(episodes["end"][mask])}
        for name, mask in _groups(episodes).items()
        if mask.any()
    }


def table(summary: Summary) -> str:
    """Return a summary as readable text."""
    rows = [
        [
            name,
            group["num_episodes"],
            *(_text(group[measure]) for measure in ("success", "spl", "soft_spl")),
            *(f"{group[measure][0]:.2f}" for measure in MEASURES[3:]),
        ]
        for name, group in summary.items()
    ]
    heads = ("episodes", "", "success", "SPL", "soft SPL", "to goal (m)", "way (m)")
    text = tabulate(rows, headers=(*heads, "collisions", "steps"), disable_numparse=True)
    ends = ", ".join(f"{name} {share:.0%}" for name, share in summary["all"]["ends"].items())
    return f"{text}\nEpisodes ended by: {ends}"


def _groups(episodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return masks of the episodes in each group, by its name, bool ``(num_episodes,)``."""
    goal, distance = episodes["goal"], episodes["start_distance"]
    groups = {"all": np.ones(len(goal), bool)}
    groups |= {name: goal == number for number, name in enumerate(TARGETS)}
    for low, high in zip(BANDS_M, (*BANDS_M[1:], np.inf), strict=True):
        name = f"{low:g} to {high:g} m" if np.isfinite(high) else f"from {low:g} m"
        groups[name] = (distance >= low) & (distance < high)
    if "detour" in episodes and (episodes["detour"] != 1.0).any():
        groups[f"detours ({DETOUR:g} or more)"] = episodes["detour"] >= DETOUR
    return groups


def _interval(values: np.ndarray, houses: np.ndarray, rng: np.random.Generator) -> Interval:
    values = values.astype(np.float64)
    house = np.unique(houses, return_inverse=True)[1]
    sums, counts = np.bincount(house, values), np.bincount(house)
    drawn = rng.integers(len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def _shares(ends: np.ndarray) -> dict[str, float]:
    """Return the shares of the reasons for episodes' ends."""
    return {
        name: float((ends == number).mean())
        for number, name in enumerate(ENDS)
        if (ends == number).any()
    }


def _text(interval: Interval) -> str:
    mean, low, high = interval
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"
