"""rl_games' normalisers over the data of all ranks.

rl_games 1.6.5 keeps separate running means and variances of observations and values on each rank,
so that ranks with equal parameters see the same state differently (its master branch synchronises
them, unreleased). Here each batch's moments are summed over ranks before they are merged.

The library's own classes are not the bases: they print, and are already scripted when available.
The names in checkpoints and for its agents are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import PooledRunningMeanStd


class PooledRunningMeanStdObs(nn.Module):
    """A normaliser for each part of observations in a dict."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], context: DistributedContext) -> None:
        super().__init__()
        self.running_mean_std = nn.ModuleDict(
            {name: PooledRunningMeanStd(shape, context) for name, shape in shapes.items()}
        )

    def forward(self, input: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self.running_mean_std[name](values) for name, values in input.items()}


def normalise_groups(model: Any, context: DistributedContext) -> None:
    """Add normalisation of a dict of observations to one of rl_games' models without it.

    The library's own normaliser of a dict indexes modules by name, which TorchScript refuses.
    """
    pooled = PooledRunningMeanStdObs(model.obs_shape, context)
    model.normalize_input = True
    model.running_mean_std = pooled.to(next(model.parameters()).device)


def pool_normalisers(model: Any, context: DistributedContext) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones with the same values."""
    if model.normalize_input and not isinstance(model.obs_shape, dict):
        pooled = PooledRunningMeanStd(model.obs_shape, context)
        model.running_mean_std = _like(model.running_mean_std, pooled)
    if model.normalize_value:
        pooled = PooledRunningMeanStd((model.value_size,), context)
        model.value_mean_std = _like(model.value_mean_std, pooled)


def _like(stock: nn.Module, pooled: nn.Module) -> nn.Module:
    pooled.load_state_dict(stock.state_dict())
    return pooled.to(next(stock.buffers()).device)
