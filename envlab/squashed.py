"""The Gaussian that SAC squashes by tanh, and its density, shared by all libraries."""

from __future__ import annotations

import math

import torch
from torch.nn import functional


def sample_squashed(
    mean: torch.Tensor, log_std: torch.Tensor, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples of a Gaussian squashed by tanh to -1 to 1, and their log-densities.

    Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (2018), appendix C. skrl 2.1.1
    has none: it clips actions, and takes the density of the unclipped ones.

    Args:
        mean: Mean of the Gaussian, ``(batch, num_actions)``, like all the others.
        log_std: Logarithm of its standard deviation.
        generator: Generator of the draws; None: the process's.
    """
    if generator is None:
        noise = torch.randn_like(mean)
    else:
        noise = torch.empty_like(mean).normal_(generator=generator)
    raw = mean + noise * log_std.exp()
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    # log(1 - tanh(x)^2), in a form that does not lose digits for large x.
    slope = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
    density = density - slope
    return raw.tanh(), density
