"""What is known of episodes that ended: their log, and measures in addition to their returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

Log = dict[str, torch.Tensor | float]
"""Means over the episodes that ended, by name: numbers, or 0-d tensors on a GPU."""


class LatestLog:
    """The log of the episodes that ended last, without asking a GPU whether one did.

    Attributes:
        values: The log.
    """

    def __init__(self) -> None:
        self.values: Log = {}
        self._table: torch.Tensor | None = None
        self._names: list[str] = []

    def keep(self, log: Log, num_ended: torch.Tensor | int) -> None:
        """Take a step's log, unless no episode ended in it; never waits for a GPU."""
        if not isinstance(num_ended, torch.Tensor):
            self.values = log
            return
        new = _scalars(log, num_ended.device)
        if not new:
            self.values = log
            return
        if self._table is None or list(new) != self._names:
            self._names = list(new)
            old = _scalars(self.values, num_ended.device)
            self._table = torch.stack([old.get(name, value) for name, value in new.items()])
        table = torch.stack(list(new.values()))  # three operations for all values
        torch.where(num_ended > 0, table, self._table, out=self._table)
        self.values = log | dict(zip(new, self._table.clone().unbind(), strict=True))

    def go_back(self, values: Log) -> None:
        """Hold an earlier log again, in the memory that graphs read."""
        if self._table is not None:
            zero = self._table.new_zeros(())
            old = [torch.as_tensor(values.get(name, zero)) for name in self._names]
            self._table.copy_(torch.stack(old))


def _scalars(log: Log, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the 0-d tensors of a log on a device."""
    return {
        name: value
        for name, value in log.items()
        if isinstance(value, torch.Tensor) and value.dim() == 0 and value.device == device
    }


class EpisodeMeasures(Protocol):
    """Sums up ``info["episodes"]`` of an environment, ``(num_episodes,)`` by name; a module may."""

    @property
    def MEASURES(self) -> Sequence[str]:
        """Names of the measures."""

    def summarise(self, episodes: Mapping[str, np.ndarray], /) -> dict[str, dict[str, Any]]:
        """Return ``MEASURES`` by group of episodes, one of which is ``all``.

        Each is a mean with the ends of its 95 % interval.
        """

    def table(self, summary: dict[str, dict[str, Any]], /) -> str:
        """Return a summary as text for people."""
