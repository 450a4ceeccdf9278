"""Distributions, by hand, of given draws."""

from __future__ import annotations

import math

import pytest
import torch

from envlab.envs import math as rotations

UNIT = torch.tensor([0.0, 0.25, 0.5, 1.0])


def test_draws_become_those_of_other_distributions():
    edge = 0.5 - 0.5 * math.sqrt(0.5)
    for values, expected in (
        (rotations.sample_uniform(-1.0, 3.0, UNIT), [-1.0, 0.0, 1.0, 3.0]),
        (rotations.sample_uniform(-UNIT, UNIT, UNIT), [0.0, -0.125, 0.0, 1.0]),
        (rotations.sample_log_uniform(1.0, 16.0, UNIT), [1.0, 2.0, 4.0, 16.0]),
        (rotations.sample_triangle(0.0, 1.0, UNIT), [0.0, edge, 0.5, 1.0]),
        (rotations.sample_gaussian(1.0, 2.0, UNIT), [1.0, 1.5, 2.0, 3.0]),
    ):
        assert values.tolist() == pytest.approx(expected, abs=1e-6)
    points = rotations.sample_cylinder(2.0, (1.0, 3.0), UNIT[1:3].expand(1, 2))
    assert points.tolist() == [pytest.approx([0.0, -2.0, 2.0], abs=1e-6)]
