"""Statistics of all ranks that scale observations and rewards for learning.

They change at the end of an iteration, equally on all ranks.
"""

from __future__ import annotations

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import RunningMoments

EPSILON = 1e-2
"""Added to deviations, as in FastTD3, so that nearly constant values are not blown up."""


class ObsScaler(RunningMoments):
    """Scales observations to a mean of zero and a deviation of one."""

    shift: torch.Tensor
    factor: torch.Tensor

    def __init__(self, size: int, context: DistributedContext) -> None:
        super().__init__((size,), context)
        self.shift = nn.Buffer(torch.zeros(size))
        self.factor = nn.Buffer(torch.ones(size))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return scaled observations, ``(batch, size)``."""
        return (obs - self.shift) * self.factor

    def add(self, samples: torch.Tensor) -> None:
        super().add(samples)
        self.shift.copy_(self.running_mean)
        self.factor.copy_(1.0 / (self.running_var.sqrt() + EPSILON))


class RewardScaler(RunningMoments):
    """Scales rewards so that running returns have the size that critics expect, in any task.

    Lee et al., "Hyperspherical Normalization for Scalable Deep Reinforcement Learning" (SimbaV2,
    2025): rewards are divided by the deviation of the running discounted returns, or by the
    largest over ``v_max`` if that is more, so that a distribution within ``v_max`` covers them.

    Attributes:
        largest: Largest magnitude of the running returns of all ranks, 0-d.
        factor: Factor of rewards, 0-d.
    """

    largest: torch.Tensor
    factor: torch.Tensor

    def __init__(self, gamma: float, v_max: float, context: DistributedContext) -> None:
        super().__init__((1,), context)
        self._gamma, self._v_max = gamma, v_max
        self.largest = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.factor = nn.Buffer(torch.ones(()))

    def returns(
        self, before: torch.Tensor, rewards: torch.Tensor, ended: torch.Tensor
    ) -> torch.Tensor:
        """Return running discounted returns, ``(num_envs,)``; they restart where an episode ended.

        Args:
            before: Returns before the step, which are updated in place.
            rewards: Rewards of the step, ``(num_envs,)``.
            ended: Whether the episode ended, bool ``(num_envs,)``.
        """
        before.mul_(self._gamma).add_(rewards)
        returns = before.clone()
        before.masked_fill_(ended, 0.0)
        return returns

    def add(self, samples: torch.Tensor) -> None:
        super().add(samples)
        torch.maximum(self.largest, samples.abs().max().double(), out=self.largest)
        if self._context.is_distributed:
            self.largest.fill_(max(self._context.gather(float(self.largest))))
        spread = torch.maximum(self.running_var[0].sqrt(), self.largest / self._v_max)
        self.factor.copy_(1.0 / spread.clamp(min=1e-6))
