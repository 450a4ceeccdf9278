"""Number of CPU threads for torch's own operations, apart from those of the physics."""

from __future__ import annotations

from types import TracebackType

import torch

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
