"""Statistics of all ranks by which observations and rewards are scaled when they are learned from.

They change at the end of an iteration, on all ranks alike.
"""

from __future__ import annotations

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import RunningMoments

EPSILON = 1e-2
"""Added to deviations, as in FastTD3: what hardly varies is not blown up."""


class ObsScaler(RunningMoments):
    """Makes observations zero on average, with a deviation of one."""

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

    def __init__(self, gamma: float, v_max: float, context: DistributedContext) -> None:
        super().__init__((1,), context)
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

    def add(self, samples: torch.Tensor) -> None:
        super().add(samples)
        everyone = self._context.gather(float(samples.abs().max()))
        self.largest.copy_(max([float(self.largest), *everyone]))
        spread = torch.maximum(self.running_var[0].sqrt(), self.largest / self._v_max)
        self.factor.copy_(1.0 / spread.clamp(min=1e-6))
