"""The current activity of this process, recorded so cheaply that every step can do it.

The main thread writes it, and the watchdog's threads (:mod:`envlab.distributed.watchdog`) read it.
Each field is one attribute, so no lock is needed: a reader may see the current phase with an
iteration of a moment ago, which is harmless. It imports no torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

PHASES = ("start", "reset", "collect", "video", "learn", "iteration", "checkpoint", "close")
"""Phases of a rank in the order of an iteration; ``reduce`` (a collective) occurs within any."""
REDUCE = "reduce"
WAITING_S = 1.0
"""Time between two marks of a process that waits for another program."""


class LostPeerError(Exception):
    """A collective broke because another rank failed or died; the text names it and its place."""


class Progress:
    """The current activity of one process, and when it last made progress.

    Attributes:
        phase: One of :data:`PHASES`, or ``reduce``.
        within: The phase that a ``reduce`` belongs to, else the phase itself.
        detail: The collective.
        iteration: The iteration under way, counted from 1.
        frames: Environment steps of all ranks so far, if known.
        collectives: Collectives begun so far.
        marked_at: Time of the last mark, in seconds of the monotonic clock.
        is_warm: Whether an update was done, so that nothing more is compiled or loaded.
        directory: The run directory, once there is one.
        failure: How this process failed, ``Type: message``; empty if it has not.
    """

    def __init__(self) -> None:
        self.phase = self.within = PHASES[0]
        self.detail = ""
        self.iteration = self.frames = self.collectives = 0
        self.marked_at = monotonic()
        self.is_warm = False
        self.directory: Path | None = None
        self.failure = ""
        self.lost_peer: Callable[[BaseException, bool], str | None] = _nobody
        """Set by the watchdog: returns which other rank caused an error, if any. It looks for a
        while or, if the second argument is false, only once."""

    def begin(self) -> None:
        """Start a run, perhaps the next of a sweep, and allow for a slow first iteration."""
        self.is_warm, self.directory, self.iteration = False, None, 0
        self.mark(PHASES[0])

    def mark(self, phase: str | None = None, iteration: int | None = None) -> None:
        """Record progress, in a new phase or the same one. It takes 0.3 us."""
        if phase is not None:
            self.phase = self.within = phase
        if iteration is not None:
            self.iteration = iteration
        self.marked_at = monotonic()

    @contextmanager
    def during(self, phase: str, detail: str = "") -> Iterator[None]:
        """Enter a phase, and return to the previous one afterwards; after an error, stay in it."""
        before = (self.phase, self.within, self.detail)
        self.phase, self.detail = phase, detail
        if phase == REDUCE:
            self.collectives += 1
        else:
            self.within = phase
        self.marked_at = monotonic()
        yield
        self.phase, self.within, self.detail = before
        self.marked_at = monotonic()

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Count as progress, for at most so long, that another program is waited for."""
        is_over = threading.Event()

        def mark() -> None:
            end = monotonic() + seconds
            while not is_over.wait(WAITING_S) and monotonic() < end:
                self.mark()

        thread = threading.Thread(target=mark, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    @contextmanager
    def naming_lost_peers(self) -> Iterator[None]:
        """Replace an error caused by another rank's end with one that names the rank and reason.

        Raises:
            LostPeerError: In place of the error of a broken collective.
        """
        try:
            yield
        except LostPeerError:
            raise
        except Exception as error:
            try:
                sentence = self.lost_peer(error, True)
            except BaseException:  # a signal: the launcher notices the same, and sends one
                sentence = self.lost_peer(error, False)
                if sentence is None:
                    raise
            if sentence is None:
                self.failure = self.failure or one_line(error)
                raise
            raise LostPeerError(sentence) from error
        except BaseException as error:
            self.lost_peer(error, False)  # does not return if the watchdog ends the job
            raise


def _nobody(error: BaseException, may_wait: bool) -> str | None:
    return None


def is_broken_collective(error: BaseException) -> bool:
    """Return whether an error means that a collective could not be completed.

    torch raises DistError for NCCL, and RuntimeError with gloo's own message for gloo.
    """
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        type(error).__name__.startswith("Dist") or "gloo" in text or "nccl" in text
    )


def one_line(error: BaseException) -> str:
    """Return the first line of an error, as ``Type: message``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
