"""SLM-Lab's figures of sessions and trials, from their curves.

Formulas as in SLM-Lab 4.1.1, ``slm_lab/experiment/analysis.py``. A figure that divides by zero is
NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envlab.run.records import METRICS, Records, number_at
from envlab_populations.hogwild.learner import GRADIENT_STEPS

WINDOW = 100
"""Points of a moving average."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A session's points, one every ``meta.log_frequency`` frames; ``(num_points,)`` each."""

    frames: np.ndarray
    """Frames of this session."""
    returns: np.ndarray
    """Mean return of the last 100 or more episodes."""
    gradient_steps: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    def first(self, count: int) -> Curve:
        """Return the first points."""
        parts = (self.frames, self.returns, self.gradient_steps)
        frames, returns, steps = (part[:count] for part in parts)
        return Curve(frames=frames, returns=returns, gradient_steps=steps)


def read_curve(directory: Path, log_frequency: int) -> Curve:
    """Return a session's curve; see :func:`curve_of`."""
    return curve_of(Records(directory / METRICS).read(), log_frequency)


def curve_of(records: Iterable[Mapping[str, Any]], log_frequency: int) -> Curve:
    """Return a curve: the first record at or beyond each multiple of ``log_frequency`` frames.

    Points before the first episode's end have no return and are omitted.
    """
    points = []
    due = 0
    for record in records:
        mean_return = number_at(record, "mean_return")
        if mean_return is None or record["frames"] < due:
            continue
        due = (record["frames"] // log_frequency + 1) * log_frequency
        steps = number_at(record, f"details.{GRADIENT_STEPS}") or 0.0
        points.append((record["frames"], mean_return, steps))
    frames, returns, steps = np.array(points, dtype=float).reshape(-1, 3).T
    return Curve(frames=frames, returns=returns, gradient_steps=steps)


def session_figures(curve: Curve, baseline: float) -> dict[str, float]:
    """Return the figures of a session.

    Args:
        curve: Its points; at least one.
        baseline: Mean return of a random policy.
    """
    strengths = curve.returns - baseline
    return {
        "max_strength": float(strengths.max()),
        "final_strength": float(strengths[-1]),
        "strength": float(strengths.mean()),
        "sample_efficiency": efficiency(strengths, curve.frames),
        "training_efficiency": efficiency(strengths, curve.gradient_steps),
        "stability": stability(strengths),
        "total_reward_ma": float(curve.returns[-WINDOW:].mean()),
    }


def trial_figures(curves: Sequence[Curve], baseline: float) -> dict[str, float]:
    """Return the means of sessions' figures, and the consistency of their strengths."""
    each = [session_figures(curve, baseline) for curve in curves]
    means = {name: float(np.mean([figures[name] for figures in each])) for name in each[0]}
    strengths = np.stack([curve.returns for curve in aligned(curves)]) - baseline
    return {**means, "consistency": consistency(strengths)}


def efficiency(strengths: np.ndarray, costs: np.ndarray) -> float:
    """Return sum(strength / cost) / sum(strength): high if strength comes early."""
    known = costs > 0
    return _ratio((strengths[known] / costs[known]).sum(), strengths[known].sum())


def stability(strengths: np.ndarray) -> float:
    """Return 1 - |sum of all drops / sum of all strengths but the last|."""
    drops = np.minimum(np.diff(strengths), 0.0)
    return 1.0 - abs(_ratio(drops.sum(), strengths[:-1].sum()))


def consistency(strengths: np.ndarray) -> float:
    """Return 1 - 2 sum(std) / sum(mean) over sessions, of strengths ``(sessions, points)``."""
    return 1.0 - 2.0 * _ratio(strengths.std(axis=0).sum(), strengths.mean(axis=0).sum())


def aligned(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves, cut to the shortest session's number of points."""
    shortest = min(map(len, curves))
    return [curve.first(shortest) for curve in curves]


def moving_average(values: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return the mean of each value and those before it, ``window`` at most."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    averages: np.ndarray = (sums[ends] - sums[starts]) / (ends - starts)
    return averages


def _ratio(above: Any, below: Any) -> float:
    return float(above / below) if below else float("nan")
