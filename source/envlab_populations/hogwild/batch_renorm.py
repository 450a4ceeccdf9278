"""Batch renormalisation (Ioffe 2017)."""

from __future__ import annotations

import torch
from torch import nn

R_MAX, D_MAX = 3.0, 5.0
"""Final limits of the correction of a batch's scale and shift (the paper, section 4)."""


class BatchRenorm(nn.Module):
    """Normalises by a batch's statistics, corrected towards the running ones, which play uses.

    Initially there is no correction, as in batch normalisation; it grows with the steps.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    step: torch.Tensor

    def __init__(self, size: int, eps: float, momentum: float, warmup: int) -> None:
        """Make the layer.

        Args:
            size: Features.
            eps: Number added to variances.
            momentum: Weight of a batch in the running statistics.
            warmup: Batches until the correction reaches its limits.
        """
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self._eps, self._momentum, self._warmup = eps, momentum, warmup

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return normalised features, ``(batch, size)``; the paper's algorithm 1 in training."""
        running_std = (self.running_var + self._eps).sqrt()
        if not self.training:
            return self.weight * (x - self.running_mean) / running_std + self.bias
        mean, variance = x.mean(0), x.var(0, unbiased=False)
        std = (variance + self._eps).sqrt()
        share = min(float(self.step) / self._warmup, 1.0)
        r_max, d_max = 1.0 + share * (R_MAX - 1.0), share * D_MAX
        with torch.no_grad():  # r and d are constants of the gradient
            r = (std / running_std).clamp(1.0 / r_max, r_max)
            d = ((mean - self.running_mean) / running_std).clamp(-d_max, d_max)
        normalised = (x - mean) / std * r + d
        with torch.no_grad():
            self.running_mean.lerp_(mean, self._momentum)
            self.running_var.lerp_(variance, self._momentum)
            self.step += 1
        return self.weight * normalised + self.bias
