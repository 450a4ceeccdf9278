"""How hyper-parameters change: only decisions, from a generator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from envlab_populations.population.cfg import PopulationCfg, Span


def first_values(spans: Sequence[Span], rng: np.random.Generator) -> dict[str, float]:
    """Return a member's initial hyper-parameters."""
    return {span.path: _draw(span, *span.start, rng) for span in spans}


def explored(span: Span, value: float, cfg: PopulationCfg, rng: np.random.Generator) -> float:
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
