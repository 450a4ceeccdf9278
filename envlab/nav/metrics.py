"""Measures of navigation over episodes: success, SPL and soft SPL, by class and by distance.

Success and SPL are those of Anderson et al., "On Evaluation of Embodied Navigation Agents" (2018),
soft SPL that of Datta et al., "Integrating Egocentric Localization for More Realistic Point-Goal
Navigation Agents" (2020), as Habitat and AllenAct compute them: see :meth:`NavEnv._measures`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from envlab.errors import RunDirectoryError
from envlab.nav.furniture import TARGETS

MEASURES = ("success", "spl", "soft_spl", "distance_to_goal", "path_length", "collisions", "steps")
BANDS_M = (0.0, 3.0, 6.0, 10.0)
"""Lower ends of the bands of the distance between start and goal."""
RESAMPLES = 1000
"""Of the bootstrap (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979)."""

Interval = tuple[float, float, float]
"""A mean, and the ends of its 95 % interval."""
Summary = dict[str, dict[str, Any]]
"""By group of episodes: ``num_episodes``, and an :data:`Interval` for each of ``MEASURES``."""


def summarise(episodes: Mapping[str, np.ndarray], seed: int = 0) -> Summary:
    """Return means with intervals of all episodes, of each class, and of each band of distance.

    Args:
        episodes: What ``info["episodes"]`` of :class:`NavEnv` holds, ``(num_episodes,)`` each.
        seed: Of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    return {
        name: {"num_episodes": int(mask.sum())}
        | {measure: _interval(episodes[measure][mask], rng) for measure in MEASURES}
        for name, mask in _groups(episodes).items()
        if mask.any()
    }


def table(summary: Summary) -> str:
    """Return a summary for a person."""
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
    return tabulate(rows, headers=(*heads, "collisions", "steps"), disable_numparse=True)


def write_summary(path: Path, summary: Summary) -> None:
    """Write a summary as JSON.

    Raises:
        RunDirectoryError: If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(summary, indent=1) + "\n")
    except OSError as error:
        raise RunDirectoryError(
            f"The measures cannot be written to {path}: {error.strerror or error}. "
            "Give another file."
        ) from error


def _groups(episodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return which episodes belong to a group, by its name, bool ``(num_episodes,)``."""
    goal, distance = episodes["goal"], episodes["start_distance"]
    groups = {"all": np.ones(len(goal), bool)}
    groups |= {name: goal == number for number, name in enumerate(TARGETS)}
    for low, high in zip(BANDS_M, (*BANDS_M[1:], np.inf), strict=True):
        name = f"{low:g} to {high:g} m" if np.isfinite(high) else f"from {low:g} m"
        groups[name] = (distance >= low) & (distance < high)
    return groups


def _interval(values: np.ndarray, rng: np.random.Generator) -> Interval:
    values = values.astype(np.float64)
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def _text(interval: Interval) -> str:
    mean, low, high = interval
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"
