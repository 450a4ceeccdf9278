"""A replay memory that draws transitions by their values' errors (Schaul et al. 2016).

As in SLM-Lab, without the paper's importance weights: a transition's priority is
``(|error| + epsilon) ** alpha``, and a new transition has the largest, to be drawn at least once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from envlab.skrl.torch.memory import QuickMemory

NEW_ERROR = 100_000.0
"""Assumed error of a transition that was not drawn yet; SLM-Lab's."""


class SumTree:
    """A binary tree: the leaves are numbers, and each node is the sum of its two children."""

    def __init__(self, size: int, device: Any) -> None:
        """Make a tree of zeros."""
        self._depth = (size - 1).bit_length()
        self._first = 1 << self._depth
        # The root is at 1, and the children of the node at i are at 2 i and 2 i + 1.
        self._sums = torch.zeros(2 * self._first, dtype=torch.float64, device=device)

    def write(self, rows: torch.Tensor, values: torch.Tensor) -> None:
        """Put values, ``(count,)``, at rows; a repeated row gets any of its values."""
        at = rows + self._first
        self._sums[at] = values.double()
        for _ in range(self._depth):
            at = at // 2
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]

    def find(self, shares: torch.Tensor) -> torch.Tensor:
        """Return the rows, ``(count,)``, where cumulated values pass shares, 0 to 1, of the total.

        Rounding never leads to a row of value 0 if there is another one on the path.
        """
        left_over = shares.double() * self._sums[1]
        at = torch.ones_like(shares, dtype=torch.int64)
        for _ in range(self._depth):
            left, right = self._sums[2 * at], self._sums[2 * at + 1]
            goes_right = (left_over >= left) & (right > 0.0)
            left_over -= left * goes_right
            at = 2 * at + goes_right
        return at - self._first


class PrioritizedMemory(QuickMemory):
    """See the module; checkpoints hold the priorities as a tensor of the memory."""

    def __init__(self, *, alpha: float, epsilon: float, **values: Any) -> None:
        """Make an empty memory."""
        super().__init__(**values)
        self._alpha, self._epsilon = alpha, epsilon
        self._tree = SumTree(self.memory_size * self.num_envs, self.device)
        self.create_tensor(name="priorities", size=1, dtype=torch.float32)

    def add_samples(self, **tensors: Any) -> None:
        """Record a step of all environments, ``(num_envs, dim)`` each."""
        first = self.memory_index * self.num_envs
        super().add_samples(**tensors)
        rows = torch.arange(first, first + self.num_envs, device=self.device)
        self._write(rows, torch.full((self.num_envs,), NEW_ERROR, device=self.device))

    def draw(self, count: int) -> torch.Tensor:
        """Return rows by their priorities, ``(count,)``."""
        return self._tree.find(torch.rand(count, dtype=torch.float64, device=self.device))

    def learn(self, errors: torch.Tensor) -> None:
        """Store the errors, ``(batch_size, 1)``, of the batch that was drawn last."""
        self._write(self.rows, errors.detach().squeeze(1))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned, and follow its priorities."""
        super().set_state(state)
        priorities = self.tensors_view["priorities"].squeeze(1).nan_to_num()  # none as yet: NaN
        self._tree.write(torch.arange(len(priorities), device=self.device), priorities)

    def _write(self, rows: torch.Tensor, errors: torch.Tensor) -> None:
        priorities = (errors.abs() + self._epsilon) ** self._alpha
        view = self.tensors_view["priorities"]
        view[rows] = priorities.unsqueeze(1)
        self._tree.write(rows, view[rows].squeeze(1))
