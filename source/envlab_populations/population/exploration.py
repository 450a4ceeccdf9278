"""Which member copies which, and how hyper-parameters change: only decisions, from a generator.

Truncation selection, as in Jaderberg et al. 2017 (arXiv:1711.09846, section 4.1.2): the worst
members copy the best ones, drawn uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from envlab_populations.population.cfg import PopulationCfg, Span


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One member takes over another's networks, and continues with other hyper-parameters."""

    target: int
    source: int
    hyperparameters: dict[str, float]
    """The target's new hyper-parameters, by path."""


def first_values(spans: Sequence[Span], rng: np.random.Generator) -> dict[str, float]:
    """Return a member's initial hyper-parameters."""
    return {span.path: _draw(span, *span.start, rng) for span in spans}


def plan(
    fitness: Sequence[float | None],
    values: Sequence[Mapping[str, float]],
    spans: Sequence[Span],
    cfg: PopulationCfg,
    rng: np.random.Generator,
) -> list[Copy]:
    """Return which members copy which at a meeting.

    Args:
        fitness: By member; None: unknown, so the member is left unchanged. NaN ranks lowest.
        values: Hyper-parameters by member.
        spans: Possible values of these.
        cfg: Shares and factors.
        rng: The generator to draw from.
    """
    known = [index for index, value in enumerate(fitness) if value is not None]
    order = sorted(known, key=lambda index: _rank(fitness[index]))
    count = min(max(1, int(cfg.exploit * len(order))), len(order) // 2)
    copies = []
    for target in order[:count]:
        source = order[len(order) - 1 - int(rng.integers(count))]
        explored = {
            span.path: _explored(span, values[source][span.path], cfg, rng) for span in spans
        }
        copies.append(Copy(target=target, source=source, hyperparameters=explored))
    return copies


def _rank(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value


def _explored(span: Span, value: float, cfg: PopulationCfg, rng: np.random.Generator) -> float:
    """Return a value near the given one, or from the whole range, as configured."""
    if cfg.explore == "resample":
        return _draw(span, span.low, span.high, rng)
    if span.choices:  # the left or right neighbour, if there is one
        ordered = sorted(span.choices)
        place = ordered.index(value) + (1 if rng.random() < 0.5 else -1)
        return ordered[min(max(place, 0), len(ordered) - 1)]
    factor = cfg.factors[int(rng.integers(len(cfg.factors)))]
    return scaled(value, factor, span.low, span.high, is_whole=span.is_whole)


def scaled(value: float, factor: float, low: float, high: float, *, is_whole: bool) -> float:
    """Return a value times a factor, clipped; a whole number changes unless it is at a bound."""
    changed = min(max(value * factor, low), high)
    if is_whole and round(changed) == value:  # a small number would never change
        changed = min(max(value + (1 if factor > 1 else -1), low), high)
    return round(changed) if is_whole else changed


def _draw(span: Span, low: float, high: float, rng: np.random.Generator) -> float:
    if span.choices:
        inside = [choice for choice in span.choices if low <= choice <= high]
        return inside[int(rng.integers(len(inside)))]
    if span.is_log:
        drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        drawn = float(rng.uniform(low, high))
    return round(drawn) if span.is_whole else drawn
