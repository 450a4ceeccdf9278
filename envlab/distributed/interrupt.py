"""SIGINT and SIGTERM as one exception, so that every exit path runs the same teardown."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal asked this process to end. Like KeyboardInterrupt, it is not an ``Exception``."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"received {signal.Signals(signal_number).name}")

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that this signal ended: 130 or 143."""
        return 128 + self.signal_number


class InterruptFlag:
    """Which signal arrived, if any. A peer's death can surface before our own signal is raised."""

    signal_number: int | None = None


@contextmanager
def interruptible() -> Iterator[InterruptFlag]:
    """Raise :class:`Interrupted` at the first SIGINT or SIGTERM and ignore further ones.

    Further signals are ignored because the launcher sends several (Ctrl-C reaches the whole process
    group, then torchrun sends SIGTERM), and one must not cut short the teardown that the first
    began.
    """
    flag = InterruptFlag()

    def handle(signal_number: int, frame: FrameType | None) -> None:
        if flag.signal_number is None:
            flag.signal_number = signal_number
            raise Interrupted(signal_number)

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
