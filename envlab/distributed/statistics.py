"""Statistics over the samples of all ranks, as one process would compute on all the data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.readings import Readings


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


class Moments(NamedTuple):
    """Mean, variance and number of samples; mean and variance have a sample's shape."""

    mean: torch.Tensor
    variance: torch.Tensor
    num_samples: torch.Tensor

    def merge_(self, other: Moments) -> None:
        """Merge in other samples, in place."""
        for mine, merged in zip(self, merge_moments(self, other), strict=True):
            mine.copy_(merged)


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Return the moments of two sets of samples together.

    Chan, Golub, LeVeque, "Algorithms for computing the sample variance" (1983), in the order of
    operations of rl_games 1.6.5 and skrl 2.1.1, which it matches bit for bit.
    """
    delta, count = second.mean - first.mean, first.num_samples + second.num_samples
    squares = first.variance * first.num_samples + second.variance * second.num_samples
    squares = squares + delta**2 * first.num_samples * second.num_samples / count
    return Moments(first.mean + delta * second.num_samples / count, squares / count, count)


def batch_moments(
    samples: torch.Tensor, context: DistributedContext, *, near: torch.Tensor | float = 0.0
) -> Moments:
    """Return the moments of all ranks' samples, float64, with one collective.

    Args:
        samples: This rank's, ``(num_samples, *shape)``; ranks may have different numbers.
        context: The process's context.
        near: Values near the mean, the same on all ranks, ``shape``. Deviations are taken from
            them, so that sums of squares do not cancel.
    """
    shape = samples.shape[1:]
    deviations = samples.double() - near
    added = deviations.new_full((1,), float(len(samples)))  # new_tensor would wait for a GPU
    sums = (deviations.sum(dim=0).flatten(), deviations.square().sum(dim=0).flatten(), added)
    size = shape.numel()
    total, squares, count = context.sum(torch.cat(sums)).split((size, size, 1))
    offset = (total / count).view(shape)
    variance = (squares / count).view(shape) - offset.square()
    return Moments(near + offset, variance.clamp(min=0.0), count[0])


Gather: TypeAlias = Callable[
    ["dict[str, tuple[float, float]]"], "list[dict[str, tuple[float, float]]]"
]
"""Returns all ranks' totals and weights by name."""


class Mean(NamedTuple):
    """A mean and the number of samples behind it."""

    value: float
    weight: float


class WeightedMeans:
    """Means by name over everything added on all ranks since the last reduction.

    Values stay on their device until :meth:`reduce`, so that adding never waits for a GPU.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor | float]] = {}
        self._fixed: dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor]] = {}
        """Those of :meth:`in_place`, whether or not there is anything in them."""
        self._read: dict[str, tuple[float, float]] = {}
        """Totals and weights that are on the host already."""

    def in_place(
        self, names: Sequence[str], device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return totals ``(k,)`` and their weight, int64 0-d, for graphs to add to.

        They keep their addresses, and are cleared when they have been read; call it before each
        addition.
        """
        key = tuple(names)
        if key not in self._fixed:
            with torch.inference_mode(False):
                weight = torch.zeros((), dtype=torch.int64, device=device)
                self._fixed[key] = torch.zeros(len(key), device=device), weight
        self._sums[key] = self._fixed[key]
        return self._fixed[key]

    def _clear(self) -> dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor]]:
        """Return what was added since the last time, and start afresh."""
        sums = {}
        for key, (totals, weight) in self._sums.items():
            if not isinstance(weight, torch.Tensor):
                weight = totals.new_full((), weight, dtype=torch.float64)
            is_fixed = key in self._fixed
            sums[key] = (totals.clone(), weight.clone()) if is_fixed else (totals, weight)
        for key in self._sums.keys() & self._fixed.keys():
            for tensor in self._fixed[key]:
                tensor.zero_()
        self._sums = {}
        return sums

    def ask(self, readings: Readings) -> None:
        """Have everything added so far read along with others, before :meth:`reduce`."""
        for names, (totals, weight) in self._clear().items():
            take = functools.partial(self._take_read, names)
            readings.ask(torch.cat((totals.reshape(-1), weight.reshape(1).to(totals.device))), take)

    def _take_read(self, names: Sequence[str], numbers: Sequence[float]) -> None:
        *totals, weight = numbers
        for name, total in zip(names, totals, strict=True):
            before = self._read.get(name, (0.0, 0.0))
            self._read[name] = (before[0] + total, before[1] + weight)

    def add(
        self,
        names: str | Sequence[str],
        totals: torch.Tensor | float,
        weight: torch.Tensor | float,
    ) -> None:
        """Add ``totals``, the sums of ``weight`` samples each, to the means called ``names``.

        Args:
            names: One name, or ``k`` whose sums are added in one operation.
            totals: A number, or 0-d; for ``k`` names ``(k,)``.
            weight: A number, or 0-d.
        """
        key = (names,) if isinstance(names, str) else tuple(names)
        if not isinstance(totals, torch.Tensor):
            if not isinstance(weight, torch.Tensor):
                self._take_read(key, [totals, weight])
                return
            totals = weight.new_full((), totals, dtype=torch.float32)
        totals = totals.detach()
        weight = weight.detach() if isinstance(weight, torch.Tensor) else weight  # on the host
        if key in self._sums:
            old_totals, old_weight = self._sums[key]
            totals, weight = old_totals + totals, old_weight + weight
        self._sums[key] = (totals, weight)

    def add_all(self, other: WeightedMeans) -> None:
        """Add everything from another one, which stays unchanged."""
        for names, (totals, weight) in other._sums.items():
            self.add(names, totals, weight)
        for name, numbers in other._read.items():
            self._take_read([name], numbers)

    def reduce(self, gather: Gather) -> dict[str, Mean]:
        """Return the means over all ranks and start afresh; names without samples are omitted.

        Every rank must call this, and gets the same result.

        Args:
            gather: Returns all ranks' values, such as :meth:`DistributedContext.gather`.
        """
        everyone = gather(self._take())
        means = {}
        for name in dict.fromkeys(name for sums in everyone for name in sums):
            parts = [sums[name] for sums in everyone if name in sums]
            weight = sum(part[1] for part in parts)
            if weight > 0:
                means[name] = Mean(sum(part[0] for part in parts) / weight, weight)
        return means

    def _take(self) -> dict[str, tuple[float, float]]:
        """Return and clear totals and weights by name, reading each device once."""
        numbers: dict[torch.device, Iterator[float]] = {}
        added = self._clear()
        for device in {totals.device for totals, _ in added.values()}:
            parts = [
                part.reshape(-1).double().to(device)
                for sums in added.values()
                if sums[0].device == device
                for part in sums
            ]
            numbers[device] = iter(torch.cat(parts).tolist())
        for names, (totals, _) in added.items():
            read = numbers[totals.device]
            self._take_read(names, [next(read) for _ in (*names, "weight")])
        mine, self._read = self._read, {}
        return mine


class RunningMoments(nn.Module):
    """Running mean and variance of all ranks' samples, float64, under rl_games' names.

    Attributes:
        running_mean: ``shape``.
        running_var: Mean squared distance from it, ``shape``.
        count: Number of samples, 0-d.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    count: torch.Tensor

    def __init__(
        self, shape: tuple[int, ...], context: DistributedContext, *, prior: float = 0.0
    ) -> None:
        """Begin with mean 0 and variance 1.

        Args:
            shape: Shape of a sample.
            context: The process's context.
            prior: Number of samples that the first mean and variance count as.
        """
        super().__init__()
        self.running_mean = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.running_var = nn.Buffer(torch.ones(shape, dtype=torch.float64))
        self.count = nn.Buffer(torch.tensor(prior, dtype=torch.float64))
        self._context = context

    @torch.no_grad()
    def add(self, samples: torch.Tensor) -> None:
        """Merge in the samples of all ranks, ``(..., *shape)``; every rank must call this."""
        samples = samples.reshape(-1, *self.running_mean.shape)
        own = Moments(self.running_mean, self.running_var, self.count)
        own.merge_(batch_moments(samples, self._context, near=self.running_mean))


class PooledRunningMeanStd(RunningMoments):
    """rl_games' normaliser over all ranks' samples; samples and results are ``(..., *shape)``."""

    def __init__(self, shape: tuple[int, ...], context: DistributedContext) -> None:
        super().__init__(shape, context, prior=1.0)

    def forward(self, input: torch.Tensor, denorm: bool = False) -> torch.Tensor:
        """Return samples normalised, or denormalised with ``denorm``; count them in training."""
        if self.training:
            self.add(input)
        mean = self.running_mean.float()
        deviation = torch.sqrt(self.running_var.float() + 1e-5)
        if denorm:
            return deviation * input.clamp(-5.0, 5.0) + mean
        return ((input - mean) / deviation).clamp(-5.0, 5.0)
