"""What a train script does around its library: flags, sweep, context, signals, teardown."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from envlab.config import Override, expand_sweep
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, Preempted, interruptible
from envlab.distributed.log import configure_logging
from envlab.distributed.progress import LostPeerError
from envlab.distributed.ranks import launched_rank, meeting_point
from envlab.distributed.watchdog import HUNG_EXIT_CODE, Watchdog
from envlab.errors import ConfigurationError
from envlab.libraries import Library
from envlab.runs.manifest import record_end
from envlab.train.agreement import check_agreement
from envlab.train.dry_run import default_flags, dry_run
from envlab.train.dry_run_text import dry_run_text
from envlab.train.flag_checks import given_config
from envlab.train.flags import Flags
from envlab.train.requeue import check_requeue, requeue
from envlab.train.resume import continue_session
from envlab.train.session import Session, compose_session
from envlab.train.sweep import sweep_table, swept_values
from envlab.train.training import train_session

logger = logging.getLogger(__name__)

_SESSIONS = itertools.count(1)
"""Numbers the sessions of this process, so that a restart goes on in the one that was broken off.

A script may train several times. Where ``--run_id`` names the run, the number is its job's alone.
"""


def run_training(library: Library, flags: Flags, overrides: list[Override]) -> int:
    """Train as the command line says; with ``-m``, one run after the other.

    Args:
        library: What to train with.
        flags: Parsed flags.
        overrides: Hydra overrides.

    Returns:
        The exit code: 0, 70 where another rank was lost, 75 for a run that was preempted and saved,
        or 128 + the number of the signal that ended the run.

    Raises:
        EnvlabError: For bad input, before anything is written.
    """
    configure_logging(launched_rank(), verbose=flags.verbose)  # what is composed may speak already
    jobs = expand_sweep(overrides) if flags.multirun else [overrides]
    check_requeue(flags)

    def compose(job: Sequence[Override], params: Path | None) -> Session:
        return compose_session(flags, job, library, params)

    sessions = [compose(job, given_config(flags)) for job in jobs]
    for session, swept in zip(sessions, swept_values(jobs), strict=True):
        session.swept = swept
    _check_sweep(sessions)
    directories: list[Path | None] = []

    def work(
        number: int, session: Session, context: DistributedContext, flag: InterruptFlag
    ) -> None:
        again = functools.partial(compose, session.overrides)
        continued = continue_session(session, context, again, number=number)
        if continued is None:
            directories.append(None)
        elif flags.dry_run:
            defaults = compose_session(default_flags(flags), [], library)
            plan = dry_run(continued, context, defaults=defaults)
            if context.is_main:
                print(dry_run_text(plan), flush=True)
        else:
            directories.append(train_session(continued, context, flag))

    try:
        with interruptible() as flag:
            return _Rank(flags, flag).run(sessions, work)
    finally:
        if len(sessions) > 1 and directories and launched_rank() == 0:
            print(f"\n{sweep_table([session.swept for session in sessions], directories)}")


class _Rank:
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
                        words = " ".join(str(one.input_line) for one in session.overrides)
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


def _check_sweep(sessions: Sequence[Session]) -> None:
    """Refuse a flag that would undo what is swept."""
    for name, key in sessions[0].agent_cfg.FLAGS.items():
        if len({repr(session.undone.get(name)) for session in sessions}) > 1:
            raise ConfigurationError(
                f"--{name} sets agent.{key} in every run, but it is swept. Leave one of them out."
            )
