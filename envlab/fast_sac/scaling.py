"""Statistics of all ranks by which observations and rewards are scaled when they are learned from.

They change at the end of an iteration, on all ranks alike.
"""

from __future__ import annotations

import torch
from torch import nn

from envlab.distributed.context import DistributedContext

EPSILON = 1e-2
"""Added to deviations, as in FastTD3: what hardly varies is not blown up."""


class Moments(nn.Module):
    """Mean and deviation of all samples of all ranks so far.

    Attributes:
        mean: ``(size,)``, float64.
        squares: Sum of squared distances from the mean, ``(size,)``, float64.
        count: Number of samples, 0-d, float64.
    """

    mean: torch.Tensor
    squares: torch.Tensor
    count: torch.Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(size, dtype=torch.float64))
        self.squares = nn.Buffer(torch.zeros(size, dtype=torch.float64))
        self.count = nn.Buffer(torch.zeros((), dtype=torch.float64))

    def add(self, samples: torch.Tensor, context: DistributedContext) -> None:
        """Count samples, ``(num_samples, size)``; every rank must call this."""
        # Distances from the running mean, which is near, so that sums of squares do not cancel.
        off = samples.double() - self.mean
        size = len(self.mean)
        sums = torch.cat((off.sum(dim=0), off.square().sum(dim=0), off.new_tensor([len(off)])))
        total, squares, count = context.sum(sums).split((size, size, 1))
        self.count += count[0]
        self.mean += total / self.count
        self.squares += squares - total.square() / self.count

    @property
    def deviation(self) -> torch.Tensor:
        """The standard deviation, ``(size,)``, float64; 1 before the first sample."""
        variance = (self.squares / self.count.clamp(min=1.0)).clamp(min=0.0)
        return torch.where(self.count > 0, variance.sqrt(), 1.0)


class ObsScaler(Moments):
    """Makes observations zero on average, with a deviation of one."""

    shift: torch.Tensor
    factor: torch.Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.shift = nn.Buffer(torch.zeros(size))
        self.factor = nn.Buffer(torch.ones(size))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return scaled observations, ``(batch, size)``."""
        return (obs - self.shift) * self.factor

    def add(self, samples: torch.Tensor, context: DistributedContext) -> None:
        super().add(samples, context)
        self.shift.copy_(self.mean)
        self.factor.copy_(1.0 / (self.deviation + EPSILON))


class RewardScaler(Moments):
    """Makes the returns of episodes so far as large as critics expect, whatever a task's rewards.

    Lee et al., "Hyperspherical Normalization for Scalable Deep Reinforcement Learning" (SimbaV2,
    2025): rewards are divided by the deviation of the running discounted returns, or by their
    largest over ``v_max`` where that is more, so that a distribution within ``v_max`` holds them.

    Attributes:
        largest: Largest running return of all ranks, without sign, 0-d.
        factor: What rewards are multiplied by, 0-d.
    """

    largest: torch.Tensor
    factor: torch.Tensor

    def __init__(self, gamma: float, v_max: float) -> None:
        super().__init__(1)
        self._gamma, self._v_max = gamma, v_max
        self.largest = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.factor = nn.Buffer(torch.ones(()))

    def returns(
        self, before: torch.Tensor, rewards: torch.Tensor, ended: torch.Tensor
    ) -> torch.Tensor:
        """Return running discounted returns, ``(num_envs,)``, and start anew where one ended.

        Args:
            before: Those before the step, which are updated in place.
            rewards: Of the step, ``(num_envs,)``.
            ended: Whether the episode ended, bool ``(num_envs,)``.
        """
        before.mul_(self._gamma).add_(rewards)
        returns = before.clone()
        before.masked_fill_(ended, 0.0)
        return returns

    def add(self, samples: torch.Tensor, context: DistributedContext) -> None:
        super().add(samples.reshape(-1, 1), context)
        everyone = context.gather(float(samples.abs().max()))
        self.largest.copy_(max([float(self.largest), *everyone]))
        spread = torch.maximum(self.deviation[0], self.largest / self._v_max)
        self.factor.copy_(1.0 / spread.clamp(min=1e-6))
