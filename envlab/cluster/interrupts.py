"""Ctrl-C, SIGTERM and a terminal that closes: what was begun is ended in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""What a command ends with that was interrupted by Ctrl-C, as in a shell."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise SystemExit, so that what is within can clean up.

    A signal that is ignored, as SIGHUP is under ``nohup``, stays so.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C, SIGTERM and SIGHUP while things are being taken back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
