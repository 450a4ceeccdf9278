"""Rewards as a session learns from them: over the running deviation of returns, and clipped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

EPSILON = 1e-8


class RewardNormaliser(nn.Module):
    """What Gymnasium's vector wrappers ``NormalizeReward`` and ``ClipReward`` do, in this order.

    As in the former, where environments reset within the step that ends an episode, the return of
    a step that terminates is its reward alone, and the next one's starts from nothing.
    """

    mean: torch.Tensor
    variance: torch.Tensor
    count: torch.Tensor
    returns: torch.Tensor

    def __init__(
        self, num_envs: int, discount: float, bounds: Sequence[float], *, normalises: bool
    ) -> None:
        """Begin with no reward seen.

        Args:
            num_envs: Environments of the session.
            discount: Of the returns.
            bounds: Least and largest reward after normalisation; empty: any.
            normalises: Whether rewards are divided by the deviation.
        """
        super().__init__()
        self._discount, self._bounds, self._normalises = discount, tuple(bounds), normalises
        for name, value in (("mean", 0.0), ("variance", 1.0), ("count", 1e-4)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))
        # Not of the checkpoint's networks, which play in any number of environments.
        self.register_buffer("returns", torch.zeros(num_envs, 1).double(), persistent=False)

    def forward(
        self, rewards: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> torch.Tensor:
        """Return the rewards to learn from; all are ``(num_envs, 1)``."""
        if self._normalises:
            self.returns *= self._discount * ~terminated
            self.returns += rewards
            self._count_in(self.returns)
            self.returns.masked_fill_(terminated | truncated, 0.0)
            rewards = (rewards / (self.variance + EPSILON).sqrt()).to(rewards.dtype)
        return rewards.clamp(*self._bounds) if self._bounds else rewards

    def _count_in(self, batch: torch.Tensor) -> None:
        """Pool mean and variance with a batch's (Chan et al. 1979)."""
        size, total = len(batch), self.count + len(batch)
        delta = batch.mean() - self.mean
        squares = self.variance * self.count + batch.var(correction=0) * size
        self.variance.copy_((squares + delta.square() * self.count * size / total) / total)
        self.mean += delta * size / total
        self.count.copy_(total)
