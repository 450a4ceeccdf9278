"""Distributions of actions: one or several choices, and real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn


class Choices:
    """Independent choices, each among its own options: actions int64 ``(..., num_choices)``."""

    def __init__(self, logits: torch.Tensor, sizes: Sequence[int]) -> None:
        """Normalise the probabilities.

        Args:
            logits: Logits of the options of all choices, ``(..., sum(sizes))``.
            sizes: Options of each choice.
        """
        parts = logits.split(list(sizes), dim=-1)
        self.log_probs = [part.log_softmax(dim=-1) for part in parts]

    def sample(self) -> torch.Tensor:
        """Return actions drawn at random."""
        drawn = [
            torch.multinomial(part.exp().flatten(0, -2), 1).view(*part.shape[:-1], 1)
            for part in self.log_probs
        ]
        return torch.cat(drawn, dim=-1)

    def mode(self) -> torch.Tensor:
        """Return the most probable actions."""
        return torch.stack([part.argmax(dim=-1) for part in self.log_probs], dim=-1)

    def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
        """Return logarithms of probabilities, ``(...)``."""
        chosen = actions.unbind(dim=-1)
        found = [
            part.gather(-1, option.unsqueeze(-1)).squeeze(-1)
            for part, option in zip(self.log_probs, chosen, strict=True)
        ]
        return torch.stack(found).sum(dim=0)

    def entropy(self) -> torch.Tensor:
        """Return entropies in nats, ``(...)``."""
        return torch.stack([-(part.exp() * part).sum(dim=-1) for part in self.log_probs]).sum(dim=0)


class Gaussian:
    """Independent normal distributions: actions ``(..., num_actions)``."""

    def __init__(self, mean: torch.Tensor, log_std: torch.Tensor) -> None:
        """Keep means ``(..., num_actions)``, and logarithms of deviations ``(num_actions,)``."""
        self.mean, self.log_std = mean, log_std

    def sample(self) -> torch.Tensor:
        """Return actions drawn at random."""
        return self.mean + self.log_std.exp() * torch.randn_like(self.mean)

    def mode(self) -> torch.Tensor:
        """Return the means."""
        return self.mean

    def log_prob(self, actions: torch.Tensor) -> torch.Tensor:
        """Return logarithms of densities, ``(...)``."""
        distance = (actions - self.mean) * (-self.log_std).exp()
        constant = self.log_std + 0.5 * math.log(2.0 * math.pi)
        return -(0.5 * distance.square() + constant).sum(dim=-1)

    def entropy(self) -> torch.Tensor:
        """Return entropies in nats, ``(...)``."""
        entropy = (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum()
        return entropy.expand(self.mean.shape[:-1])


class Head(nn.Module):
    """From the memory's output to a distribution of actions."""

    def __init__(self, input_dim: int, sizes: Sequence[int] | int, init_std: float = 1.0) -> None:
        """Make the layer, whose initial output hardly depends on observations.

        Args:
            input_dim: Size of the input.
            sizes: Options of each choice; or the number of real numbers.
            init_std: Initial deviation of real numbers.
        """
        super().__init__()
        self.sizes = None if isinstance(sizes, int) else list(sizes)
        num_outputs = sizes if isinstance(sizes, int) else sum(sizes)
        self.linear = nn.Linear(input_dim, num_outputs)
        nn.init.orthogonal_(self.linear.weight, 0.01)
        nn.init.zeros_(self.linear.bias)
        if self.sizes is None:
            self.log_std = nn.Parameter(torch.full((num_outputs,), math.log(init_std)))

    def forward(self, beliefs: torch.Tensor) -> Choices | Gaussian:
        outputs = self.linear(beliefs)
        return (
            Gaussian(outputs, self.log_std) if self.sizes is None else Choices(outputs, self.sizes)
        )
