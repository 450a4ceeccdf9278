"""What a train script does around its library: flags, sweep, context, signals, teardown."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence

from envlab.config import expand_sweep
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, interruptible
from envlab.distributed.log import configure_logging
from envlab.distributed.ranks import launched_rank
from envlab.errors import ConfigurationError
from envlab.rl.agent_cfg import AgentCfg
from envlab.rl.arguments import train_parser
from envlab.rl.session import (
    Session,
    check_origin,
    compose_session,
    locate_checkpoint,
    run_params,
)
from envlab.rl.train_session import BuildLearner, train_session

logger = logging.getLogger(__name__)


def run_training(
    arguments: Sequence[str],
    *,
    library: str,
    agent_cfg: Callable[[], AgentCfg],
    build: BuildLearner,
    prepare: Callable[[argparse.Namespace], None] = lambda flags: None,
) -> int:
    """Train as the command line says; with ``-m``, one run after the other.

    Args:
        arguments: Flags and overrides.
        library: ``rsl_rl``, ...
        agent_cfg: Makes the library's default configuration.
        build: Makes the library's learner.
        prepare: Called before the process group is joined, for a library that needs a word first.

    Returns:
        The exit code: 0, or 128 + the number of the signal that ended the run.

    Raises:
        EnvlabError: For bad input, before anything is written.
    """
    flags, overrides = train_parser(library).parse_with_overrides(arguments)
    configure_logging(launched_rank(), verbose=flags.verbose)  # what is composed may speak already
    jobs = expand_sweep(overrides) if flags.multirun else [overrides]
    _check_sweep(flags, jobs, agent_cfg().FLAGS)
    sessions = [_compose(flags, job, library, agent_cfg) for job in jobs]
    with interruptible() as flag:
        context = None
        try:
            prepare(flags)
            context = DistributedContext.create(flags.distributed, flags.device)
            configure_logging(context.rank, context.world_size, verbose=flags.verbose)
            for number, session in enumerate(sessions, 1):
                if flags.multirun:
                    logger.info(
                        "Run %d of %d: %s", number, len(sessions), " ".join(session.overrides)
                    )
                train_session(session, context, flag, library=library, build=build)
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


def _check_sweep(flags: argparse.Namespace, jobs: list[list[str]], keys: Mapping[str, str]) -> None:
    """Refuse a flag that would undo what is swept."""
    for name, key in keys.items():
        values = {word for job in jobs for word in job if word.startswith(f"agent.{key}=")}
        if getattr(flags, name) is not None and len(values) > 1:
            raise ConfigurationError(
                f"--{name} sets agent.{key} in every run, but it is swept. Leave one of them out."
            )


def _compose(
    flags: argparse.Namespace, job: Sequence[str], library: str, agent_cfg: Callable[[], AgentCfg]
) -> Session:
    """Compose a session; a resumed one from its run's own configuration, under the overrides."""
    params = run_params(flags)
    session = compose_session(flags, job, library=library, agent_cfg=agent_cfg(), params=params)
    if not flags.resume:
        for name in ("checkpoint", "load_run"):
            if getattr(flags, name) is not None:
                raise ConfigurationError(
                    f"--{name} has no effect on a new run. Add --resume to continue one."
                )
        return session
    cfg = session.agent_cfg
    checkpoint, run = locate_checkpoint(library, cfg, flags.load_run, flags.checkpoint)
    resumed = load_checkpoint(checkpoint)
    check_origin(resumed, checkpoint, task=session.task, library=library, agent_cfg=cfg)
    if params is None and (run / "params" / "env.yaml").is_file():
        session = compose_session(flags, job, library=library, agent_cfg=agent_cfg(), params=run)
    session.checkpoint, session.resumed = checkpoint, resumed
    return session
