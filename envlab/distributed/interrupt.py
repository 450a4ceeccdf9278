"""Signals that end a run: SIGINT at once, SIGTERM and SIGUSR1 after the iteration under way.

Schedulers announce the end of an allocation by SIGTERM (Kubernetes, and Slurm 30 s before SIGKILL)
or by a signal of one's choice (Slurm's ``--signal=USR1@120``). A run that trains then finishes its
iteration on all ranks, saves, and leaves with :data:`PREEMPTED_EXIT_CODE`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PREEMPTION_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""The last of them that any rank has heard names the reason."""
SIGNALS = (signal.SIGINT, *PREEMPTION_SIGNALS)
PREEMPTED_EXIT_CODE = 75
"""``EX_TEMPFAIL`` of sysexits.h: not finished, and the same command may be run again to go on."""


class Interrupted(BaseException):
    """A signal asked this process to end. Like KeyboardInterrupt, it is not an ``Exception``."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"received {signal.Signals(signal_number).name}")

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that this signal ended: 130 or 143."""
        return 128 + self.signal_number


class Preempted(Interrupted):
    """A signal to any rank asked the run to end, and its state was saved by all of them."""

    exit_code = PREEMPTED_EXIT_CODE  # type: ignore[assignment]
    is_saved = True
    """Whether there was room for its checkpoint."""


class InterruptFlag:
    """Which signal arrived, if any. A peer's death can surface before our own signal is raised."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._defers = False
        self._raised = False
        self.is_leaving = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note SIGTERM and SIGUSR1 within: who trains asks for :attr:`signal_number`."""
        self._defers = True
        try:
            yield
        finally:
            self._defers = False

    def ignore_more(self) -> None:
        """Ignore signals from now on: the process is leaving, and may do so with its own code.

        torchrun sends SIGTERM to the others as soon as the first rank has left.
        """
        self.is_leaving = True
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def handle(self, signal_number: int, frame: FrameType | None) -> None:
        """Handle a signal, as ``signal.signal`` wants it.

        Raises:
            Interrupted: At most once. Launchers send several signals (Ctrl-C reaches the whole
                process group, then torchrun sends SIGTERM), and one must not cut short the teardown
                that the first began.
        """
        is_first = self.signal_number is None
        if is_first:
            self.signal_number = signal_number
        if self._defers and signal_number in PREEMPTION_SIGNALS:
            return
        if (is_first or self._defers) and not self._raised:
            self._raised = True
            raise Interrupted(signal_number)


@contextmanager
def interruptible() -> Iterator[InterruptFlag]:
    """Raise :class:`Interrupted` at the first signal, unless the flag defers it."""
    flag = InterruptFlag()
    previous = {number: signal.signal(number, flag.handle) for number in SIGNALS}
    try:
        yield flag
    finally:
        if not flag.is_leaving:
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextmanager
def default_signals() -> Iterator[None]:
    """Let signals end the process at once within, where nothing can be lost yet.

    A handler of ours would run only when the library's C++ code returns, which may take minutes
    where it waits for a rank that never comes.
    """
    previous = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
