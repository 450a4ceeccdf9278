"""Rewards for learning: divided by the running deviation of returns, and clipped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import RunningMoments

EPSILON = 1e-8


class RewardNormaliser(RunningMoments):
    """Gymnasium's vector wrappers ``NormalizeReward`` and ``ClipReward``, in this order.

    As in the former, where environments reset within the step that ends an episode, the return of
    a step that terminates is its reward alone, and the next one starts at zero.
    """

    returns: torch.Tensor

    def __init__(
        self, num_envs: int, discount: float, bounds: Sequence[float], *, normalises: bool
    ) -> None:
        """Start without rewards.

        Args:
            num_envs: Environments of the session.
            discount: Discount of the returns.
            bounds: Minimum and maximum reward after normalisation; empty: any.
            normalises: Whether rewards are divided by the deviation.
        """
        super().__init__((), DistributedContext(), prior=1e-4)
        self._discount, self._bounds, self._normalises = discount, tuple(bounds), normalises
        # Not part of the checkpoint's networks, which play in any number of environments.
        self.returns = nn.Buffer(torch.zeros(num_envs, 1).double(), persistent=False)

    def forward(
        self, rewards: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> torch.Tensor:
        """Return the rewards to learn from; all are ``(num_envs, 1)``."""
        if self._normalises:
            self.returns *= self._discount * ~terminated
            self.returns += rewards
            self.add(self.returns)
            self.returns.masked_fill_(terminated | truncated, 0.0)
            rewards = (rewards / (self.running_var + EPSILON).sqrt()).to(rewards.dtype)
        return rewards.clamp(*self._bounds) if self._bounds else rewards
