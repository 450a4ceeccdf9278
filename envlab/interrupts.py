"""Orderly endings after Ctrl-C, SIGTERM or the closing of a terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType

INTERRUPTED = 130
"""Exit code of a command that was interrupted by Ctrl-C, as in a shell."""


def _hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("\nInterrupted.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


# The command line imports this before the slow modules, so that even during their import Ctrl-C
# prints only a word.
sys.excepthook = _hook


def ending_in_order() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that the enclosed code can clean up.

    A signal that is ignored, such as SIGHUP under ``nohup``, stays ignored.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP)
    return _handled(
        _leave, *(number for number in numbers if signal.getsignal(number) == signal.SIG_DFL)
    )


def uninterrupted() -> AbstractContextManager[None]:
    """Ignore Ctrl-C, SIGTERM and SIGHUP during a cleanup."""
    return _handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
