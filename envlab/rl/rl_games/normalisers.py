"""rl_games' normalisers over the data of all ranks.

rl_games 1.6.5 keeps running means and variances of observations and values on each rank for itself,
so that ranks with equal parameters see the same state differently (its master branch synchronises
them, unreleased). Here each batch's moments are summed over ranks before they are merged.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs
from torch import nn

from envlab.distributed.context import DistributedContext


class PooledRunningMeanStd(RunningMeanStd):
    """A running mean and variance of all ranks' samples; in evaluation it is the library's own."""

    training: bool
    running_mean: torch.Tensor
    running_var: torch.Tensor
    count: torch.Tensor

    def __init__(self, shape: tuple[int, ...], context: DistributedContext) -> None:
        super().__init__(shape)
        self._context = context

    def forward(
        self, input: torch.Tensor, denorm: bool = False, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        if not self.training:
            return super().forward(input, denorm, mask)
        self._add(input.detach())
        self.training = False  # or the library would add this rank's samples once more
        try:
            return super().forward(input, denorm, mask)
        finally:
            self.training = True

    def _add(self, samples: torch.Tensor) -> None:
        """Merge the moments of all ranks' samples, ``(batch, *shape)``, in one collective.

        Deviations are from the running mean, which is the same on all ranks and near the samples,
        so that the sum of squares does not cancel; sums are float64.
        """
        deviations = samples.double() - self.running_mean
        count = deviations.new_tensor([float(len(samples))])
        sums = (deviations.sum(dim=0).flatten(), deviations.square().sum(dim=0).flatten(), count)
        total, squares, count = self._context.sum(torch.cat(sums)).split(
            (self.running_mean.numel(), self.running_mean.numel(), 1)
        )
        offset = (total / count).view_as(self.running_mean)
        variance = (squares / count).view_as(self.running_var) - offset.square()
        merged = self._update_mean_var_count_from_moments(
            self.running_mean,
            self.running_var,
            self.count,
            self.running_mean + offset,
            variance.clamp(min=0.0),
            count[0],
        )
        self.running_mean, self.running_var, self.count = merged


class PooledRunningMeanStdObs(RunningMeanStdObs):
    """The same for observations in a dict."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], context: DistributedContext) -> None:
        super().__init__(shapes)
        self.running_mean_std = nn.ModuleDict(
            {name: PooledRunningMeanStd(shape, context) for name, shape in shapes.items()}
        )


def pool_normalisers(model: Any, context: DistributedContext) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones with the same values."""
    with contextlib.redirect_stdout(io.StringIO()):  # each normaliser prints its shape
        _pool_normalisers(model, context)


def _pool_normalisers(model: Any, context: DistributedContext) -> None:
    if model.normalize_input:
        kind = (
            PooledRunningMeanStdObs if isinstance(model.obs_shape, dict) else PooledRunningMeanStd
        )
        model.running_mean_std = _like(model.running_mean_std, kind(model.obs_shape, context))
    if model.normalize_value:
        pooled = PooledRunningMeanStd((model.value_size,), context)
        model.value_mean_std = _like(model.value_mean_std, pooled)


def _like(stock: nn.Module, pooled: nn.Module) -> nn.Module:
    pooled.load_state_dict(stock.state_dict())
    return pooled.to(next(stock.buffers()).device)
