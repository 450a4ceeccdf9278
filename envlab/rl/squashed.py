"""The Gaussian that SAC squashes by tanh, and its density."""

from __future__ import annotations

import math

import torch
from torch.nn import functional


def sample_squashed(mean: torch.Tensor, log_std: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return draws of a Gaussian squashed by tanh to -1 to 1, and the logarithm of their density.

    Args:
        mean: Of the Gaussian before tanh, any shape.
        log_std: Logarithm of its deviation, of the same shape.

    Returns:
        Draws and log-densities of each, of the same shape; gradients pass through both.
    """
    noise = torch.randn_like(mean)
    raw = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    # log(1 - tanh(x)^2), which does not round to log(0) where tanh rounds to 1.
    slope = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
    return raw.tanh(), gaussian - slope
