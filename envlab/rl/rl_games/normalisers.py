"""rl_games' normalisers over the data of all ranks.

rl_games 1.6.5 keeps running means and variances of observations and values on each rank for itself,
so that ranks with equal parameters see the same state differently (its master branch synchronises
them, unreleased). Here each batch's moments are summed over ranks before they are merged.

The library's own classes are no bases of these: they print, and are scripted before anybody sees
them. What their checkpoints and its agents know them by is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext


class PooledRunningMeanStd(nn.Module):
    """A running mean and variance of all ranks' samples.

    Samples and results are ``(batch, *shape)``; statistics are float64.
    """

    def __init__(self, shape: tuple[int, ...], context: DistributedContext) -> None:
        super().__init__()
        self.running_mean = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.running_var = nn.Buffer(torch.ones(shape, dtype=torch.float64))
        self.count = nn.Buffer(torch.ones((), dtype=torch.float64))  # as in the library: one at 0
        self._context = context

    def forward(self, input: torch.Tensor, denorm: bool = False) -> torch.Tensor:
        """Return samples normalised, or with ``denorm`` as they were; in training count them."""
        if self.training:
            self._add(input.detach())
        mean = self.running_mean.float()
        deviation = torch.sqrt(self.running_var.float() + 1e-5)
        if denorm:
            return deviation * input.clamp(-5.0, 5.0) + mean
        return ((input - mean) / deviation).clamp(-5.0, 5.0)

    def _add(self, samples: torch.Tensor) -> None:
        """Merge the moments of all ranks' samples in one collective.

        Deviations are from the running mean, which is the same on all ranks and near the samples,
        so that the sum of squares does not cancel.
        """
        deviations = samples.double() - self.running_mean
        added = deviations.new_tensor([float(len(samples))])
        sums = (deviations.sum(dim=0).flatten(), deviations.square().sum(dim=0).flatten(), added)
        size = self.running_mean.numel()
        total, squares, added = self._context.sum(torch.cat(sums)).split((size, size, 1))
        added = added[0]
        offset = (total / added).view_as(self.running_mean)
        variance = (squares / added).view_as(self.running_var) - offset.square()
        # Chan's formula, in the library's order of operations.
        delta, count = self.running_mean + offset - self.running_mean, self.count + added
        spread = self.running_var * self.count + variance.clamp(min=0.0) * added
        spread = spread + delta**2 * self.count * added / count
        self.running_mean = self.running_mean + delta * added / count
        self.running_var, self.count = spread / count, count


class PooledRunningMeanStdObs(nn.Module):
    """The same for observations in a dict."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], context: DistributedContext) -> None:
        super().__init__()
        self.running_mean_std = nn.ModuleDict(
            {name: PooledRunningMeanStd(shape, context) for name, shape in shapes.items()}
        )

    def forward(self, input: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self.running_mean_std[name](values) for name, values in input.items()}


def pool_normalisers(model: Any, context: DistributedContext) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones with the same values."""
    if model.normalize_input:
        is_dict = isinstance(model.obs_shape, dict)
        kind = PooledRunningMeanStdObs if is_dict else PooledRunningMeanStd
        model.running_mean_std = _like(model.running_mean_std, kind(model.obs_shape, context))
    if model.normalize_value:
        pooled = PooledRunningMeanStd((model.value_size,), context)
        model.value_mean_std = _like(model.value_mean_std, pooled)


def _like(stock: nn.Module, pooled: nn.Module) -> nn.Module:
    pooled.load_state_dict(stock.state_dict())
    return pooled.to(next(stock.buffers()).device)
