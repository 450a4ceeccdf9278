"""Statistics over the samples of all ranks: what one process would compute on all the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from envlab.distributed.context import DistributedContext


def pooled_moments(
    values: torch.Tensor, context: DistributedContext
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and the unbiased standard deviation of ``values`` over all ranks' elements.

    The mean is reduced first and the squared deviations from it second: two collectives of two
    numbers each, without the cancellation of a sum of squares.

    Args:
        values: This rank's samples, any shape.
        context: The process's context.

    Returns:
        Mean and standard deviation, both 0-d float32.
    """
    if not context.is_distributed:
        return values.mean(), values.std()
    count = torch.tensor(float(values.numel()), dtype=torch.float64, device=values.device)
    total, count = context.sum(torch.stack((values.sum(dtype=torch.float64), count)))
    mean = total / count
    squares = context.sum((values.double() - mean).square().sum())
    return mean.float(), (squares / (count - 1)).sqrt().float()


class Mean(NamedTuple):
    """A mean and the number of samples behind it."""

    value: float
    weight: float


class WeightedMeans:
    """Means by name over everything added on every rank since the last reduction.

    Values stay on their device until :meth:`reduce`, so that adding never waits for a GPU.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor]] = {}

    def add(
        self,
        names: str | Sequence[str],
        totals: torch.Tensor | float,
        weight: torch.Tensor | float,
    ) -> None:
        """Add ``totals``, the sums of ``weight`` samples each, to the means called ``names``.

        Args:
            names: One, or ``k``: what is counted together is added in the operations of one.
            totals: A number, or 0-d; of ``k`` names ``(k,)``.
            weight: A number, or 0-d.
        """
        key = (names,) if isinstance(names, str) else tuple(names)
        totals, weight = torch.as_tensor(totals).detach(), torch.as_tensor(weight).detach()
        if key in self._sums:
            old_totals, old_weight = self._sums[key]
            totals, weight = old_totals + totals, old_weight + weight
        self._sums[key] = (totals, weight)

    def add_all(self, other: WeightedMeans) -> None:
        """Add all that another one has, which keeps it."""
        for names, (totals, weight) in other._sums.items():
            self.add(names, totals, weight)

    def reduce(self, context: DistributedContext) -> dict[str, Mean]:
        """Return the means over all ranks and start anew; names without a sample are left out.

        Every rank must call this, and gets the same result.
        """
        everyone = context.gather(self._take())
        means = {}
        for name in dict.fromkeys(name for sums in everyone for name in sums):
            parts = [sums[name] for sums in everyone if name in sums]
            weight = sum(part[1] for part in parts)
            if weight > 0:
                means[name] = Mean(sum(part[0] for part in parts) / weight, weight)
        return means

    def _take(self) -> dict[str, tuple[float, float]]:
        """Return totals and weights by name, and forget them; each device is read once."""
        numbers: dict[torch.device, Iterator[float]] = {}
        for device in {totals.device for totals, _ in self._sums.values()}:
            parts = [
                part.reshape(-1).double().to(device)
                for sums in self._sums.values()
                if sums[0].device == device
                for part in sums
            ]
            numbers[device] = iter(torch.cat(parts).tolist())
        mine: dict[str, tuple[float, float]] = {}
        for names, (totals, _) in self._sums.items():
            read = numbers[totals.device]
            values = [next(read) for _ in names]
            weight = next(read)
            for name, value in zip(names, values, strict=True):
                before = mine.get(name, (0.0, 0.0))
                mine[name] = (before[0] + value, before[1] + weight)
        self._sums.clear()
        return mine


class PooledRunningMeanStd(nn.Module):
    """A running mean and variance of all ranks' samples: rl_games' normaliser, by its names.

    Samples and results are ``(..., *shape)``; statistics are float64.
    """

    def __init__(self, shape: tuple[int, ...], context: DistributedContext) -> None:
        super().__init__()
        self.running_mean = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.running_var = nn.Buffer(torch.ones(shape, dtype=torch.float64))
        self.count = nn.Buffer(torch.ones((), dtype=torch.float64))  # as in rl_games: one at 0
        self._context = context

    def forward(self, input: torch.Tensor, denorm: bool = False) -> torch.Tensor:
        """Return samples normalised, or with ``denorm`` as they were; in training count them."""
        if self.training:
            self.add(input.detach())
        mean = self.running_mean.float()
        deviation = torch.sqrt(self.running_var.float() + 1e-5)
        if denorm:
            return deviation * input.clamp(-5.0, 5.0) + mean
        return ((input - mean) / deviation).clamp(-5.0, 5.0)

    def add(self, samples: torch.Tensor) -> None:
        """Merge the moments of all ranks' samples in one collective; every rank must call this.

        Deviations are from the running mean, which is the same on all ranks and near the samples,
        so that the sum of squares does not cancel.
        """
        samples = samples.reshape(-1, *self.running_mean.shape)
        deviations = samples.double() - self.running_mean
        added = deviations.new_tensor([float(len(samples))])
        sums = (deviations.sum(dim=0).flatten(), deviations.square().sum(dim=0).flatten(), added)
        size = self.running_mean.numel()
        total, squares, added = self._context.sum(torch.cat(sums)).split((size, size, 1))
        added = added[0]
        offset = (total / added).view_as(self.running_mean)
        variance = (squares / added).view_as(self.running_var) - offset.square()
        # Chan's formula, in rl_games' order of operations.
        delta, count = self.running_mean + offset - self.running_mean, self.count + added
        spread = self.running_var * self.count + variance.clamp(min=0.0) * added
        spread = spread + delta**2 * self.count * added / count
        self.running_mean = self.running_mean + delta * added / count
        self.running_var, self.count = spread / count, count
