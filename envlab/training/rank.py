"""This process's part in a job: joining the other ranks, watchdog, signals, orderly exit."""

from __future__ import annotations

import itertools
import logging
import os
import signal

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, Preempted
from envlab.distributed.program import configure_logging
from envlab.distributed.progress import LostPeerError, is_broken_collective
from envlab.distributed.ranks import launched_rank, meeting_point
from envlab.distributed.watchdog import HUNG_EXIT_CODE, Watchdog
from envlab.run.manifest import record_end
from envlab.training._requeue import requeue
from envlab.training.flags import Flags

logger = logging.getLogger(__name__)

_SESSIONS = itertools.count(1)
"""Numbers the sessions of this process, so that a restart resumes the interrupted one.

A script may train several times. If ``--run_id`` names the run, only the number of its job counts.
"""


class Rank:
    """This process's part in a job; on exit, turns an error into an exit code or raises it.

    Attributes:
        exit_code: The process's exit code, if no error was raised.
    """

    def __init__(self, flags: Flags, flag: InterruptFlag) -> None:
        self._flags, self._flag = flags, flag
        self._context: DistributedContext | None = None
        self._watchdog: Watchdog | None = None
        self.exit_code = 0

    def __enter__(self) -> Rank:
        return self

    def join(self) -> DistributedContext:
        """Join the other ranks, watched by a watchdog."""
        flags = self._flags
        context = self._context = DistributedContext.create(
            flags.distributed, flags.device, timeout_s=flags.timeout_s
        )
        configure_logging(context.rank, context.world_size, verbose=flags.verbose)
        self._watchdog = Watchdog(
            context,
            end_run=record_end,
            meeting_point=meeting_point(os.environ) if context.is_distributed else None,
            timeout_s=flags.timeout_s,
            has_launcher=flags.distributed,
        )
        return context

    def number(self, job: int) -> int:
        """Return the session number in this process of a job, counted from 1."""
        return next(_SESSIONS) if self._flags.run_id is None else job

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        try:
            code = self._code_of(error)
        finally:
            if self._context is not None:
                self._context.close(abort=not (error is None or isinstance(error, Preempted)))
            if self._watchdog is not None:
                self._watchdog.close()
        self.exit_code = code or 0
        return code is not None

    def _code_of(self, error: BaseException | None) -> int | None:
        """Return the exit code for the error that ended the job; None if it must be raised."""
        if error is None:
            return 0
        if isinstance(error, Interrupted):
            return self._stop(error)
        if isinstance(error, LostPeerError):
            return self._stop_without(error)
        if isinstance(error, Exception):
            if self._flag.signal_number is not None and is_broken_collective(error):
                # A peer that left first breaks a collective before our own signal is raised.
                return self._stop(Interrupted(self._flag.signal_number))
            self._tell_failure(error)
        return None

    def _stop(self, interrupted: Interrupted) -> int:
        """Log which signal ended the job, and requeue it if requested."""
        if not isinstance(interrupted, Preempted):
            logger.warning("Interrupted: %s.", interrupted)
            self._requeue(interrupted)
            return interrupted.exit_code
        self._flag.ignore_more()
        assert self._context is not None
        if self._context.is_main:
            how = "Interrupted" if interrupted.signal_number == signal.SIGINT else "Preempted"
            saved = "saved" if interrupted.is_saved else "not saved: the log says why"
            logger.warning(
                "%s: %s, and %s; exit code %d.", how, interrupted, saved, interrupted.exit_code
            )
            self._requeue(interrupted)
        return interrupted.exit_code

    def _requeue(self, interrupted: Interrupted) -> None:
        """Have Slurm start the job again if its time is up, even before the first iteration."""
        is_over = interrupted.signal_number == signal.SIGUSR1
        if self._flags.requeue and is_over and launched_rank() == 0:
            requeue()

    def _stop_without(self, lost: LostPeerError) -> int:
        """End because another rank has, which one of the remaining ranks reports."""
        self._flag.ignore_more()
        if self._watchdog is not None and self._watchdog.speaks():
            logger.error("%s", lost)
            if self._context is not None and self._context.progress.directory is not None:
                record_end(self._context.progress.directory, str(lost))  # rank 0 may be lost
        return HUNG_EXIT_CODE

    def _tell_failure(self, error: Exception) -> None:
        """Notify the other ranks of an error here, and let none of them cut this exit short."""
        if self._context is not None and self._context.is_distributed:
            self._flag.ignore_more()
        if self._watchdog is not None:
            self._watchdog.tell_failure(error)
