"""What the host wants to know of a device: asked for during an iteration, read once at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Take = Callable[[Sequence[float]], None]
"""Takes the numbers that were asked for."""


class Readings:
    """Numbers that are copied to the host together, where it waits for the device anyway.

    Each copy by itself would wait for all that a GPU has been told to do so far.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[torch.Tensor, Take]] = []

    def ask(self, values: torch.Tensor, take: Take) -> None:
        """Have values of now read later; never waits for a GPU.

        Args:
            values: Numbers, of any shape and device.
            take: Called with them, in their order.
        """
        self._asked.append((values.detach().reshape(-1).double().clone(), take))

    def read(self, values: torch.Tensor | None = None) -> Sequence[float]:
        """Read all that was asked for, once for each device, and have it taken.

        Args:
            values: More numbers to read.

        Returns:
            Those of ``values``.
        """
        more: list[float] = []
        if values is not None:
            self.ask(values, more.extend)
        asked, self._asked = self._asked, []
        for device in {tensor.device for tensor, _ in asked}:
            here = [(tensor, take) for tensor, take in asked if tensor.device == device]
            numbers = torch.cat([tensor for tensor, _ in here]).tolist()
            for tensor, take in here:
                mine, numbers = numbers[: len(tensor)], numbers[len(tensor) :]
                take(mine)
        return more
