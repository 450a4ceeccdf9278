"""The records of an experiment, a side for each contender, and verdicts on them.

One exact test is made for all comparisons.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from envlab.errors import ConfigurationError
from envlab.run.compare.groups import Group
from envlab.run.compare.results import find_results
from envlab.run.compare.statistics import (
    difference_interval,
    holm,
    improvement_interval,
    permutation_p,
)
from envlab.tools.evidence.experiment import LEAST_SEEDS, PLAYED, Contender, Experiment
from envlab.tools.evidence.runner import NUM_POINTS, physics

NUM_LAST = NUM_POINTS // 10
"""Last points of a recorded curve, a tenth of a long one; their mean is compared if no episodes are
played."""


@dataclass(kw_only=True)
class Side:
    """Contents of a contender's records."""

    contender: Contender
    group: Group
    final: np.ndarray
    """The compared value of each run: that of played episodes, or of the metric's last tenth."""
    places: set[str]
    """Where episodes were played, as far as their records say."""


def sides_of(experiment: Experiment, records: Path) -> list[Side]:
    """Read the records of an experiment; contenders without any are omitted."""
    sides = []
    for contender in experiment.contenders:
        folder = records / experiment.name / contender.name
        if next(folder.glob("*/run.json"), None) is None:
            continue
        runs = find_results([str(folder)], experiment.metric)
        runs.sort(key=lambda run: int(run.manifest["seed"]))
        played = []
        if experiment.episodes:
            played = [json.loads((run.directory / PLAYED).read_text()) for run in runs]
            final = np.array([experiment.measured(values) for values in played])
        else:
            final = np.array([run.values[run.has_value][-NUM_LAST:].mean() for run in runs])
        group = Group(label=contender.name, keys={}, runs=runs)
        places = {values["place"] for values in played if "place" in values}
        sides.append(Side(contender=contender, group=group, final=final, places=places))
    return sides


def physics_of(experiment: Experiment, sides: Sequence[Side]) -> str:
    """Return the physics that all runs of an experiment have.

    Raises:
        ConfigurationError: If they differ, so that contenders cannot be compared.
    """
    runs = [(side.contender.name, run) for side in sides for run in side.group.runs]
    found = {physics(experiment.task, run.manifest): name for name, run in runs}
    if len(found) > 1:
        texts = ", ".join(f"{engine} ({name})" for engine, name in found.items())
        raise ConfigurationError(
            f"The records of {experiment.name!r} have different physics: {texts}. Contenders must "
            "have the same: run the others again with it, or give them a separate experiment."
        )
    return next(iter(found))


@dataclass(kw_only=True)
class Comparison:
    """The verdict of the records on two contenders."""

    first: str
    other: str
    word: str
    """Such as ``better than``."""
    sentence: str


def comparisons(experiment: Experiment, sides: Sequence[Side]) -> list[Comparison]:
    """Compare the contenders that the claim is about, with one test for all of these."""
    all_pairs = list(itertools.combinations(sides, 2))
    pairs = all_pairs if experiment.expect == "equal" else all_pairs[: len(sides) - 1]
    is_tested = [num_seeds(pair) >= LEAST_SEEDS for pair in pairs]
    tested = itertools.compress(pairs, is_tested)
    adjusted = iter(holm([permutation_p(first.final, other.final) for first, other in tested]))
    return [
        _compare(experiment, *pair, next(adjusted) if is_enough else None)
        for pair, is_enough in zip(pairs, is_tested, strict=True)
    ]


def num_seeds(sides: Sequence[Side]) -> int:
    """Return the minimum number of runs of a contender."""
    return min(len(side.final) for side in sides)


def _compare(experiment: Experiment, first: Side, other: Side, p: float | None) -> Comparison:
    """Return the verdict on two contenders, from a p that accounts for the other comparisons."""
    is_equal = experiment.expect == "equal"
    share = improvement_interval(first.final, other.final)
    up, down, none = (
        ("higher than", "lower than", "no significant difference from")
        if is_equal
        else ("better than", "worse than", "undecided against")
    )
    if p is None:
        word, reason = "no verdict against", f"{num_seeds((first, other))} seeds, **no verdict**"
    else:
        is_found = p <= experiment.level()
        word = none if not is_found else up if share[0] > 0.5 else down
        reason = f"p = {p:.2g}, **{word.rpartition(' ')[0]}**"
    if is_equal:
        low, high = difference_interval(first.final, other.final)
        size = f"difference {low:.3g} to {high:.3g}"
    else:
        size = f"better with probability {share[0]:.2f} ({share[1]:.2f} to {share[2]:.2f})"
    names = {"first": first.contender.name, "other": other.contender.name}
    sentence = f"{names['first']} against {names['other']}: {size}; {reason}."
    return Comparison(word=word, sentence=sentence, **names)


def without_a_chance(
    experiment: Experiment, sides: Sequence[Side], num_comparisons: int
) -> list[str]:
    """Return a line if no values at all could give a verdict from so few seeds."""
    fewest = num_seeds(sides)
    least = num_comparisons * 2.0 / math.comb(2 * fewest, fewest)
    if fewest < LEAST_SEEDS or least <= experiment.level():
        return []
    return [
        f"- With {fewest} seeds and {num_comparisons} comparisons p is at least {least:.2g}, so no "
        "verdict is possible."
    ]
