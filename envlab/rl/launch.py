"""What a train script does around its library: flags, sweep, context, signals, teardown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from envlab.config import expand_sweep
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, interruptible
from envlab.distributed.log import configure_logging
from envlab.rl.arguments import train_parser
from envlab.rl.session import Session, compose_session, run_params

logger = logging.getLogger(__name__)

TrainFunction = Callable[[Session, DistributedContext, InterruptFlag], None]


def run_training(
    arguments: Sequence[str], *, library: str, agent_cfg: Callable[[], Any], train: TrainFunction
) -> int:
    """Train as the command line says; with ``-m``, one run after the other.

    Args:
        arguments: Flags and overrides.
        library: ``rsl_rl``, ...
        agent_cfg: Makes the library's default configuration.
        train: Runs one session.

    Returns:
        The exit code: 0, or 128 + the number of the signal that ended the run.

    Raises:
        EnvlabError: For bad input, before anything is written.
    """
    flags, overrides = train_parser(library).parse_with_overrides(arguments)
    jobs = expand_sweep(overrides) if flags.multirun else [overrides]
    sessions = [
        compose_session(
            flags, job, library=library, agent_cfg=agent_cfg(), params=run_params(flags)
        )
        for job in jobs
    ]
    with interruptible() as flag:
        context = None
        try:
            context = DistributedContext.create(flags.distributed, flags.device)
            configure_logging(context.rank, context.world_size, verbose=flags.verbose)
            for number, session in enumerate(sessions, 1):
                if flags.multirun:
                    logger.info(
                        "Run %d of %d: %s", number, len(sessions), " ".join(session.overrides)
                    )
                train(session, context, flag)
        except Interrupted as interrupted:
            logger.warning("Interrupted: %s.", interrupted)
            return interrupted.exit_code
        except Exception:
            if flag.signal_number is None:
                raise
            # A peer that left first breaks a collective before our own signal is raised.
            logger.warning("Interrupted by signal %d.", flag.signal_number)
            return 128 + flag.signal_number
        finally:
            if context is not None:
                context.close()
    return 0
