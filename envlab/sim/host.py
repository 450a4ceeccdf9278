"""What the host computes: devices whose values can be read without waiting, and its threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType

import torch

HOST = {"cpu"}
"""Types of such devices. Tests empty it to take a GPU's branches on a CPU."""

_as_on_a_gpu = ContextVar("as_on_a_gpu", default=False)


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Take a GPU's branches in this thread, which run the same operations in each step."""
    token = _as_on_a_gpu.set(True)
    try:
        yield
    finally:
        _as_on_a_gpu.reset(token)


def on_host(device: torch.device) -> bool:
    """Return whether values on a device can be read without waiting."""
    return device.type in HOST and not _as_on_a_gpu.get()


SMALL_BATCH = 1 << 19
"""Up to this many numbers, one thread is as fast as several, and does not wait for a busy core.

torch splits sines, roots and the like into pieces of 2048 numbers. On two idle cores the sine of
4096 numbers takes 8 us on two threads and 3 us on one; next to other processes, 15 ms and 5 us.
"""


class OneThread:
    """Limits torch to one CPU thread while it is entered, if wanted; takes 0.3 us."""

    def __init__(self, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._threads = 1

    def __enter__(self) -> None:
        if self._is_wanted:
            self._threads = torch.get_num_threads()
            torch.set_num_threads(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_wanted:
            torch.set_num_threads(self._threads)
