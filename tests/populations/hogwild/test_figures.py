"""SLM-Lab's formulas against numbers computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from envlab_populations.hogwild.figures import (
    Curve,
    consistency,
    moving_average,
    read_curve,
    session_figures,
    stability,
    trial_figures,
)
from envlab_populations.hogwild.learner import GRADIENT_STEPS


def curve(returns: list[float], every: int = 100) -> Curve:
    frames = every * np.arange(1, len(returns) + 1, dtype=float)
    return Curve(frames=frames, returns=np.array(returns), gradient_steps=frames / 50.0)


def test_figures_of_a_session():
    # Strengths over a baseline of 10: 10, 40, 30, 60 at 100, 200, 300, 400 frames.
    figures = session_figures(curve([20.0, 50.0, 40.0, 70.0]), baseline=10.0)
    assert figures["strength"] == 35.0
    assert (figures["max_strength"], figures["final_strength"]) == (60.0, 60.0)
    # (10/100 + 40/200 + 30/300 + 60/400) / 140 = 0.55 / 140
    assert figures["sample_efficiency"] == pytest.approx(0.55 / 140.0)
    # The same over 2, 4, 6, 8 gradient steps: 27.5 / 140
    assert figures["training_efficiency"] == pytest.approx(27.5 / 140.0)
    # One drop, of 10, in 10 + 40 + 30: 1 - 10/80
    assert figures["stability"] == 0.875
    assert figures["total_reward_ma"] == 45.0


def test_figures_of_a_trial_are_means_over_sessions():
    curves = [curve([20.0, 50.0]), curve([40.0, 70.0, 80.0])]
    figures = trial_figures(curves, baseline=10.0)
    assert figures["final_strength"] == (40.0 + 70.0) / 2.0
    # Strengths 10, 40 and 30, 60: means 20, 50 and standard deviations 10, 10.
    assert figures["consistency"] == pytest.approx(1.0 - 2.0 * 20.0 / 70.0)


def test_figures_at_their_edges():
    assert stability(np.array([1.0, 2.0, 3.0])) == 1.0  # of nothing but rise
    assert consistency(np.array([[1.0, 2.0], [1.0, 2.0]])) == 1.0
    # Without strength there is no efficiency, and averages start with fewer values.
    assert math.isnan(session_figures(curve([5.0, 5.0]), baseline=5.0)["sample_efficiency"])
    averages = moving_average(np.array([2.0, 4.0, 9.0, 3.0]), window=3)
    assert averages.tolist() == pytest.approx([2.0, 3.0, 5.0, 16.0 / 3.0])


def test_a_curve_has_a_point_beyond_each_multiple_of_the_frequency(tmp_path: Path):
    records = [
        {
            **{"iteration": frames // 40, "frames": frames, "wall_s": 1.0, "mean_return": value},
            "details": {GRADIENT_STEPS: frames / 4},
        }
        for frames, value in ((40, None), (80, 1.0), (120, 2.0), (160, 3.0), (240, 4.0))
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "metrics.jsonl").write_text(f'{lines}{{"frames": 2')  # the session was killed
    found = read_curve(tmp_path, 100)
    assert found.frames.tolist() == [80.0, 120.0, 240.0]
    assert found.returns.tolist() == [1.0, 2.0, 4.0]
    assert found.gradient_steps.tolist() == [20.0, 30.0, 60.0]
