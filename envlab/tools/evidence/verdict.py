"""Verdicts on contenders from their records: one exact test for all comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from envlab.run.compare.statistics import (
    difference_interval,
    holm,
    improvement_interval,
    permutation_p,
)
from envlab.tools.evidence.experiment import LEAST_SEEDS, Experiment
from envlab.tools.evidence.sides import Side


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
