"""What a train script does around its library: flags, sweep, context, signals, teardown."""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from envlab.config import expand_sweep
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, Preempted, interruptible
from envlab.distributed.log import configure_logging
from envlab.distributed.progress import LostPeerError
from envlab.distributed.ranks import launched_rank, meeting_point
from envlab.distributed.watchdog import HUNG_EXIT_CODE, Watchdog
from envlab.errors import ConfigurationError
from envlab.rl.command.dry_run import default_flags, dry_run
from envlab.rl.command.dry_run_text import dry_run_text
from envlab.rl.command.requeue import check_requeue, requeue
from envlab.rl.command.resume import continue_session
from envlab.rl.command.session import Session, compose_session, run_params
from envlab.rl.command.train import train_session
from envlab.rl.libraries import Library
from envlab.rl.run.manifest import record_end

logger = logging.getLogger(__name__)

_SESSIONS = itertools.count(1)
"""Numbers the sessions of this process, so that a restart goes on in the one that was broken off.

A script may train several times. Where ``--run_id`` names the run, the number is its job's alone.
"""


def run_training(library: Library, flags: argparse.Namespace, overrides: list[str]) -> int:
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
    compose = functools.partial(_compose, flags, library)
    sessions = [compose(job, run_params(flags)) for job in jobs]
    _check_sweep(sessions)

    def work(
        number: int, session: Session, context: DistributedContext, flag: InterruptFlag
    ) -> None:
        again = functools.partial(compose, session.overrides)
        continued = continue_session(session, context, again, number=number)
        if continued is None:
            return
        if flags.dry_run:
            defaults = _compose(default_flags(flags), library, [], None)
            plan = dry_run(continued, context, defaults=defaults)
            if context.is_main:
                print(dry_run_text(plan), flush=True)
        else:
            train_session(continued, context, flag)

    return _with_all_ranks(flags, sessions, work)


def _with_all_ranks(
    flags: argparse.Namespace,
    sessions: Sequence[Session],
    work: Callable[[int, Session, DistributedContext, InterruptFlag], None],
) -> int:
    """Join the other ranks, work on the sessions, and leave in order; return the exit code."""
    with interruptible() as flag:
        context = watchdog = None
        ends_well = False
        try:
            context = DistributedContext.create(
                flags.distributed, flags.device, timeout_s=flags.timeout_s
            )
            configure_logging(context.rank, context.world_size, verbose=flags.verbose)
            watchdog = _watch(context, flags)
            with context.progress.naming_lost_peers():
                for job, session in enumerate(sessions, 1):
                    if flags.multirun:
                        words = " ".join(session.overrides)
                        logger.info("Run %d of %d: %s", job, len(sessions), words)
                    number = next(_SESSIONS) if flags.run_id is None else job
                    work(number, session, context, flag)
            ends_well = True
        except Interrupted as interrupted:
            if isinstance(interrupted, Preempted):
                flag.ignore_more()
                ends_well = True
            return _leave(interrupted, flags, context)
        except LostPeerError as lost:
            flag.ignore_more()
            if watchdog is not None and watchdog.speaks():
                logger.error("%s", lost)
                if context is not None and context.progress.directory is not None:
                    record_end(context.progress.directory, str(lost))  # rank 0 may be the one
            return HUNG_EXIT_CODE
        except Exception as error:
            if flag.signal_number is None:
                if context is not None and context.is_distributed:
                    flag.ignore_more()
                if watchdog is not None:
                    watchdog.tell_failure(error)
                raise
            # A peer that left first breaks a collective before our own signal is raised.
            return _leave(Interrupted(flag.signal_number), flags, context)
        finally:
            if context is not None:
                context.close(abort=not ends_well)
            if watchdog is not None:
                watchdog.close()
    return 0


def _watch(context: DistributedContext, flags: argparse.Namespace) -> Watchdog:
    """Start this process's watchdog."""
    return Watchdog(
        context,
        end_run=record_end,
        meeting_point=meeting_point(os.environ) if context.is_distributed else None,
        timeout_s=flags.timeout_s,
        has_launcher=flags.distributed,
    )


def _leave(
    interrupted: Interrupted, flags: argparse.Namespace, context: DistributedContext | None
) -> int:
    """Say how the run ended, have it started again where asked, and return the exit code."""
    if not isinstance(interrupted, Preempted):
        logger.warning("Interrupted: %s.", interrupted)
        return interrupted.exit_code
    assert context is not None
    if context.is_main:
        saved = "saved" if interrupted.is_saved else "not saved, for want of room"
        logger.warning(
            "Preempted: %s, and %s; exit code %d.", interrupted, saved, interrupted.exit_code
        )
        if flags.requeue and interrupted.signal_number == signal.SIGUSR1:
            requeue()
    return interrupted.exit_code


def _check_sweep(sessions: Sequence[Session]) -> None:
    """Refuse a flag that would undo what is swept."""
    for name, key in sessions[0].agent_cfg.FLAGS.items():
        if len({repr(session.undone.get(name)) for session in sessions}) > 1:
            raise ConfigurationError(
                f"--{name} sets agent.{key} in every run, but it is swept. Leave one of them out."
            )


def _compose(
    flags: argparse.Namespace, library: Library, job: Sequence[str], params: Path | None
) -> Session:
    """Compose a session, from a run's own configuration where there is one."""
    if not flags.resume:
        for name in ("checkpoint", "load_run"):
            if getattr(flags, name) is not None:
                raise ConfigurationError(
                    f"--{name} has no effect on a new run. Add --resume to continue one."
                )
    return compose_session(flags, job, library, params)
