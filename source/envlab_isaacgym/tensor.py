"""``isaacgym.gymapi.Tensor``."""

from __future__ import annotations

import torch


class Tensor:
    """Result of ``acquire_*`` and ``gymtorch.unwrap_tensor``: holds a torch tensor."""

    own_data = False

    def __init__(self, values: torch.Tensor | None = None) -> None:
        self.values = torch.empty(0) if values is None else values

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size."""
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        """Number of its dimensions."""
        return self.values.dim()

    @property
    def dtype(self) -> torch.dtype:
        """Type of its elements."""
        return self.values.dtype

    @property
    def device(self) -> int:
        """Index of its GPU; -1: it lies on the CPU."""
        return self.values.device.index or 0 if self.values.device.type == "cuda" else -1

    @property
    def data_address(self) -> int:
        """Address of its elements, which never changes."""
        return self.values.data_ptr()

    data_ptr = data_address
