"""A replay memory for a population: every member writes into it, and learns from all steps."""

from __future__ import annotations

from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.skrl.torch.memory import QuickMemory


class ReplayMemory(QuickMemory):
    """A memory that all members write into.

    A gathered memory holds the steps of all ranks, by one exchange a step; otherwise each rank's
    memory holds its own, and the ranks exchange gradients alone.
    """

    def __init__(
        self, size: int, num_envs: int, device: torch.device, context: DistributedContext | None
    ) -> None:
        """Make an empty memory.

        Args:
            size: Minimum number of transitions to keep; full rows of environments are kept.
            num_envs: Environments of a member on this rank, which write together.
            device: Device of the memory.
            context: The process's context, to gather from all ranks; None: only this rank's.
        """
        self._context = context if context is not None and context.is_distributed else None
        ranks = 1 if self._context is None else self._context.world_size
        rows = num_envs * ranks
        super().__init__(memory_size=max(1, -(-size // rows)), num_envs=rows, device=device)

    def add_samples(self, **tensors: torch.Tensor | None) -> None:
        """Add a step of a member's environments, ``(num_envs, dim)`` by name."""
        if self._context is not None:
            kept = {k: v for k, v in tensors.items() if k in self.tensors and v is not None}
            super().add_samples(**self._of_all_ranks(kept, self._context))
            return
        super().add_samples(**tensors)

    def _of_all_ranks(self, tensors: Any, context: DistributedContext) -> dict[str, torch.Tensor]:
        """Return the rows of all ranks, in their order. float64 holds every kind of value."""
        flat = torch.cat([value.double() for value in tensors.values()], 1)
        rows = torch.zeros(context.world_size, *flat.shape, dtype=flat.dtype, device=flat.device)
        rows[context.rank] = flat
        parts = context.sum(rows).flatten(0, 1).split([v.shape[1] for v in tensors.values()], 1)
        return {
            name: part.to(value.dtype)
            for (name, value), part in zip(tensors.items(), parts, strict=True)
        }
