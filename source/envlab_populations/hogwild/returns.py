"""Returns of a rollout's steps; skrl has generalised advantages alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from envlab.skrl.torch.ranks import ComputeGae


def discounted_returns(rewards: torch.Tensor, ended: torch.Tensor, discount: float) -> torch.Tensor:
    """Return the discounted return from each step on, as far as the rollout shows.

    G(t) = r(t) + γ G(t + 1), and r(t) at the end of an episode (Sutton and Barto 2018, eq. 3.9).

    Args:
        rewards: ``(num_steps, ...)``.
        ended: Whether an episode ended with the step, bool of the same shape.
        discount: γ.
    """
    returns, future = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        future = rewards[step] + discount * future * ~ended[step]
        returns[step] = future
    return returns


def n_step_advantages(num_steps: int) -> Callable[[ComputeGae], ComputeGae]:
    """Return a decorator that replaces skrl's ``compute_gae`` by n-step returns.

    G(t) = r(t) + ... + γ^(n-1) r(t + n - 1) + γ^n V(t + n) (Sutton and Barto 2018, eq. 7.1), cut
    short where an episode or the rollout ends. SLM-Lab computes it for the first n steps of an
    episode alone, and 0 for those after them.
    """

    def replace(stock: ComputeGae) -> ComputeGae:
        def compute(**given: Any) -> tuple[torch.Tensor, torch.Tensor]:
            rewards, values, discount = given["rewards"], given["values"], given["discount_factor"]
            ended = given["terminated"] | given["truncated"]
            # G of 0 steps is the values; each turn adds a step.
            following = torch.cat((values, given["last_values"].unsqueeze(0)))
            for _ in range(num_steps):
                sums = rewards + discount * following[1:] * ~ended
                following = torch.cat((sums, following[-1:]))
            returns = following[:-1]
            advantages = returns - values
            return returns, (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        return compute

    return replace
