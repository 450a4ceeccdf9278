"""Distributions by name, as functions of given draws; names are Isaac Lab's (``utils.math``).

Isaac Lab's functions take a size and a device and draw from torch's generator, whose numbers depend
on how environments are spread over processes. These take the draws: ``unit`` are numbers from
[0, 1), such as ``stream.uniform(0.0, 1.0, 3)`` of a term's stream.
"""

from __future__ import annotations

import math

import torch

Bound = torch.Tensor | float


def sample_uniform(lower: Bound, upper: Bound, unit: torch.Tensor) -> torch.Tensor:
    """Return draws from [``lower``, ``upper``), of the shape of ``unit``."""
    return unit * (upper - lower) + lower


def sample_log_uniform(lower: Bound, upper: Bound, unit: torch.Tensor) -> torch.Tensor:
    """Return draws whose logarithms are uniform between those of two positive bounds."""
    low, high = (torch.as_tensor(bound, device=unit.device).log() for bound in (lower, upper))
    return sample_uniform(low, high, unit).exp()


def sample_triangle(lower: float, upper: float, unit: torch.Tensor) -> torch.Tensor:
    """Return draws by the inverse of Isaac Lab's "triangle", of the shape of ``unit``.

    For all its name, the density grows from the middle of the range towards both of its ends.
    """
    centred = 2.0 * unit - 1.0
    spread = centred.sign() * centred.abs().sqrt()
    return sample_uniform(lower, upper, 0.5 * (spread + 1.0))


def sample_gaussian(mean: Bound, std: Bound, normal: torch.Tensor) -> torch.Tensor:
    """Return normal draws from standard ones, such as ``stream.normal(0.0, 1.0, 3)``."""
    return normal * std + mean


def sample_cylinder(
    radius: float, h_range: tuple[float, float], unit: torch.Tensor
) -> torch.Tensor:
    """Return points on the side of a vertical cylinder about the origin, in m, ``(..., 3)``.

    Args:
        radius: In m.
        h_range: Bounds of the height, in m.
        unit: Draws, ``(..., 2)``: of the angle, and of the height.
    """
    angle = (unit[..., 0] * 2.0 - 1.0) * math.pi
    height = sample_uniform(*h_range, unit[..., 1])
    return torch.stack((radius * angle.cos(), radius * angle.sin(), height), dim=-1)
