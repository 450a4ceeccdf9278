"""Signals that end a run; training first finishes the iteration and saves a checkpoint.

Schedulers announce the end of an allocation by SIGTERM (Kubernetes, and Slurm 30 s before SIGKILL)
or by a signal of one's choice (Slurm's ``--signal=USR1@120``). A training run then finishes its
iteration on all ranks, saves, and exits with :data:`PREEMPTED_EXIT_CODE`. The first Ctrl-C does the
same, except for the code, which shells expect to be 130. A second Ctrl-C ends the run immediately.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from envlab.distributed.ranks import launched_rank

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""The last one in this order that any rank received is the reason."""
PREEMPTED_EXIT_CODE = 75
"""``EX_TEMPFAIL`` of sysexits.h: not finished; running the same command again resumes the run."""
SAME_PRESS_S = 1.0
"""Within this time, another SIGINT is the same Ctrl-C, passed on by a launcher."""
_WAIT = (
    "\nCtrl-C: finishing and saving the current iteration. Press Ctrl-C again to end the run at "
    "once, without saving.\n"
)


class Interrupted(BaseException):
    """A signal asked this process to end. Like KeyboardInterrupt, it is not an ``Exception``."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        self.directory: Path | None = None
        """Directory of the run that it ended, if there is one to resume."""
        super().__init__(f"received {signal.Signals(signal_number).name}")

    @property
    def exit_code(self) -> int:
        """The code that a shell reports for a process ended by this signal: 130 or 143."""
        return 128 + self.signal_number


class Preempted(Interrupted):
    """A signal to any rank asked the run to end, and all ranks saved its state."""

    is_saved = True
    """Whether there was room for its checkpoint."""
    checkpoint: Path | None = None
    """That checkpoint, on rank 0."""

    @property
    def exit_code(self) -> int:
        """The code that makes a scheduler resume the run later; for Ctrl-C, the usual 130."""
        return 130 if self.signal_number == signal.SIGINT else PREEMPTED_EXIT_CODE


class InterruptFlag:
    """The signal that arrived, if any. A peer's death can surface before our own signal does."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._defers = False
        self._raised = False
        self._pressed_at: float | None = None
        self.is_leaving = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only record signals within the block, except a second Ctrl-C.

        The training loop polls :attr:`signal_number`.
        """
        self._defers = True
        try:
            yield
        finally:
            self._defers = False

    def ignore_more(self) -> None:
        """Ignore signals from now on, so that the process exits with its own code.

        torchrun sends SIGTERM to the others as soon as the first rank has left.
        """
        self.is_leaving = True
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def handle(self, signal_number: int, frame: FrameType | None) -> None:
        """Handle a signal, as a handler for ``signal.signal``.

        Raises:
            Interrupted: At most once. Launchers send several signals (Ctrl-C reaches the whole
                process group, then torchrun sends SIGTERM), and none may cut short the teardown
                that the first one began.
        """
        is_first = self.signal_number is None
        if is_first:
            self.signal_number = signal_number
        if self._defers and not self._is_pressed_again(signal_number):
            return
        if (is_first or self._defers) and not self._raised:
            self._raised = True
            raise Interrupted(signal_number)

    def _is_pressed_again(self, signal_number: int) -> bool:
        """Return whether this is a second Ctrl-C; after the first, print what a second would do."""
        if signal_number != signal.SIGINT:
            return False
        before, now = self._pressed_at, time.monotonic()
        if before is not None:
            return now - before > SAME_PRESS_S
        self._pressed_at = now
        if launched_rank() == 0:
            os.write(2, _WAIT.encode())  # print's buffer may be in use where the signal arrived
        return False


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
    """Let signals end the process immediately within the block, while nothing can be lost yet.

    Our own handler would run only when the library's C++ code returns, which may take minutes if
    it waits for a rank that never comes.
    """
    previous = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
