"""A replay memory whose batches cost the same however much it holds."""

from __future__ import annotations

from typing import Any

import torch

from envlab.skrl.library import load_skrl

load_skrl()

from skrl.memories.torch import RandomMemory  # noqa: E402


class QuickMemory(RandomMemory):
    """skrl's memory, from which batches are drawn uniformly and with replacement.

    By default, skrl permutes the indices of all transitions for a batch. Here a transition may be
    in a batch twice: with the same generator, samples are those of skrl's ``replacement: true``,
    bit for bit.
    """

    def __init__(self, *, use_cer: bool = False, **values: Any) -> None:
        """Make an empty memory.

        Args:
            use_cer: Whether each batch holds the transitions that were recorded last.
            **values: skrl's own.
        """
        super().__init__(**values)
        self._use_cer = use_cer
        self.rows = torch.empty(0, dtype=torch.int64, device=self.device)
        """Of the batch that was drawn last."""

    def draw(self, count: int) -> torch.Tensor:
        """Return rows, ``(count,)``, of ``tensors_view``."""
        return torch.randint(len(self), (count,), device=self.device)

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> list[list[Any]]:
        """Return one batch: ``(batch_size, dim)`` for each name, None where there is none."""
        rows = self.rows = self.draw(batch_size)
        if self._use_cer:
            newest = (self.memory_index - 1) % self.memory_size * self.num_envs
            count = min(self.num_envs, batch_size)
            rows[:count] = torch.arange(newest, newest + count, device=self.device)
        view = self.tensors_view
        return [[view[name].index_select(0, rows) if name in view else None for name in names]]
