"""This process's part in a job: joining the other ranks, watchdog, signals, leaving in order."""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Callable, Sequence

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, Preempted
from envlab.distributed.log import configure_logging
from envlab.distributed.progress import LostPeerError
from envlab.distributed.ranks import meeting_point
from envlab.distributed.watchdog import HUNG_EXIT_CODE, Watchdog
from envlab.run.manifest import record_end
from envlab.training.agreement import check_agreement
from envlab.training.flags import Flags
from envlab.training.requeue import requeue
from envlab.training.session import Session

logger = logging.getLogger(__name__)

_SESSIONS = itertools.count(1)
"""Numbers the sessions of this process, so that a restart goes on in the one that was broken off.

A script may train several times. Where ``--run_id`` names the run, the number is its job's alone.
"""


class Rank:
    """This process's part in a job, from joining the other ranks to leaving in order."""

    def __init__(self, flags: Flags, flag: InterruptFlag) -> None:
        self._flags, self._flag = flags, flag
        self._context: DistributedContext | None = None
        self._watchdog: Watchdog | None = None
        self._ends_well = False

    def run(
        self,
        sessions: Sequence[Session],
        work: Callable[[int, Session, DistributedContext, InterruptFlag], None],
    ) -> int:
        """Work on the sessions one after the other; return the exit code."""
        try:
            context = self._join()
            with context.progress.naming_lost_peers():
                check_agreement(sessions, context)
                for job, session in enumerate(sessions, 1):
                    if self._flags.multirun:
                        words = " ".join(str(override.input_line) for override in session.overrides)
                        logger.info("Run %d of %d: %s", job, len(sessions), words)
                    number = next(_SESSIONS) if self._flags.run_id is None else job
                    work(number, session, context, self._flag)
            self._ends_well = True
        except Interrupted as interrupted:
            return self._stop(interrupted)
        except LostPeerError as lost:
            return self._stop_without(lost)
        except Exception as error:
            if self._flag.signal_number is not None:
                # A peer that left first breaks a collective before our own signal is raised.
                return self._stop(Interrupted(self._flag.signal_number))
            self._tell_failure(error)
            raise
        finally:
            if self._context is not None:
                self._context.close(abort=not self._ends_well)
            if self._watchdog is not None:
                self._watchdog.close()
        return 0

    def _join(self) -> DistributedContext:
        """Join the other ranks, under the eyes of a watchdog."""
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

    def _stop(self, interrupted: Interrupted) -> int:
        """Say which signal ended the job, and have it started again where that was asked for."""
        if not isinstance(interrupted, Preempted):
            logger.warning("Interrupted: %s.", interrupted)
            return interrupted.exit_code
        self._flag.ignore_more()
        self._ends_well = True
        assert self._context is not None
        if self._context.is_main:
            how = "Interrupted" if interrupted.signal_number == signal.SIGINT else "Preempted"
            saved = "saved" if interrupted.is_saved else "not saved: the log says why"
            logger.warning(
                "%s: %s, and %s; exit code %d.", how, interrupted, saved, interrupted.exit_code
            )
            if self._flags.requeue and interrupted.signal_number == signal.SIGUSR1:
                requeue()
        return interrupted.exit_code

    def _stop_without(self, lost: LostPeerError) -> int:
        """End because another rank has: one of those that are left says so."""
        self._flag.ignore_more()
        if self._watchdog is not None and self._watchdog.speaks():
            logger.error("%s", lost)
            if self._context is not None and self._context.progress.directory is not None:
                record_end(self._context.progress.directory, str(lost))  # rank 0 may be the one
        return HUNG_EXIT_CODE

    def _tell_failure(self, error: Exception) -> None:
        """Tell the other ranks of an error here, and let none of their ends cut this one short."""
        if self._context is not None and self._context.is_distributed:
            self._flag.ignore_more()
        if self._watchdog is not None:
            self._watchdog.tell_failure(error)
