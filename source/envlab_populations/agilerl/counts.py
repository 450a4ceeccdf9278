"""A count of steps, which AgileRL kept as a list until 2.8 and as a number since."""

from __future__ import annotations

import functools
from typing import Any


@functools.total_ordering
class Steps:
    """Behaves as the number, and as a list whose last entry is the number."""

    def __init__(self, count: Any = 0) -> None:
        """Start at a count."""
        self._count = int(count)

    def __int__(self) -> int:
        return self._count

    __index__ = __int__

    def __float__(self) -> float:
        return float(self._count)

    def __getitem__(self, index: int) -> int:
        if index != -1:
            raise IndexError(f"steps[{index}] is not kept; the last entry is steps[-1]")
        return self._count

    def __setitem__(self, index: int, count: int) -> None:
        self[index]  # only the last can be set
        self._count = int(count)

    def append(self, count: int) -> None:
        """Start a generation at a count; the previous count is dropped."""
        self._count = int(count)

    def __add__(self, other: Any) -> Steps:
        return Steps(self._count + int(other))

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return hasattr(other, "__int__") and self._count == int(other)

    def __lt__(self, other: Any) -> bool:
        return self._count < other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self._count)

    def __format__(self, spec: str) -> str:
        return format(self._count, spec)
