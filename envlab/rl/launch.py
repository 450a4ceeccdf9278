"""What a train script does around its library: flags, sweep, context, signals, teardown."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envlab.config import expand_sweep, merge
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, interruptible
from envlab.distributed.log import configure_logging
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab.rl.arguments import train_parser
from envlab.rl.run import Run
from envlab.rl.session import (
    AGENT_FLAGS,
    Session,
    agree_on_seed,
    check_origin,
    choose_num_envs,
    compose_session,
    locate_checkpoint,
    run_params,
)
from envlab.rl.video import check_recording, render_mode

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
    _check_sweep(flags, jobs)
    sessions = [_compose(flags, job, library, agent_cfg) for job in jobs]
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


def _check_sweep(flags: argparse.Namespace, jobs: list[list[str]]) -> None:
    """Refuse a flag that would undo what is swept."""
    for name in AGENT_FLAGS:
        values = {word for job in jobs for word in job if word.startswith(f"agent.{name}=")}
        if getattr(flags, name) is not None and len(values) > 1:
            raise ConfigurationError(
                f"--{name} sets agent.{name} in every run, but it is swept. Leave one of them out."
            )


def total_iterations(
    max_iterations: int,
    max_frames: int | None,
    frames_per_iteration: int,
    resumed: Mapping[str, Any] | None,
) -> int:
    """Return the iteration to end at, those before a resume included.

    Args:
        max_iterations: The budget in iterations.
        max_frames: The budget in environment steps of all processes, in place of iterations.
        frames_per_iteration: Environment steps of one iteration, of all processes.
        resumed: The checkpoint that is resumed, if any. Its frames were counted, because a run with
            another number of processes had other frames per iteration.

    Raises:
        ConfigurationError: If there is nothing left to do.
    """
    done, frames = (0, 0) if resumed is None else (resumed["iteration"], resumed["frames"])
    if max_frames is not None and max_frames <= 0:
        raise ConfigurationError(f"--max_frames is {max_frames}, but must be greater than 0.")
    total = max_iterations
    if max_frames is not None:
        total = done + math.ceil((max_frames - frames) / frames_per_iteration)
    if total <= done or total < 1:
        raise ConfigurationError(
            f"The run is to end at iteration {total}, but {done} are done already. Iterations "
            f"count from the first run on: give --max_iterations more than {done}."
        )
    return total


def settle(session: Session, context: DistributedContext) -> Session:
    """Return the session with the seed and the number of environments that it runs with.

    Raises:
        ConfigurationError: If the number of environments makes no sense.
    """
    seed = agree_on_seed(session.agent_cfg.seed, context)
    env_seed = seed if session.env_cfg.seed is None else session.env_cfg.seed
    num_envs = choose_num_envs(session, context)
    return dataclasses.replace(
        session,
        env_cfg=merge(session.env_cfg, {"scene": {"num_envs": num_envs}, "seed": env_seed}, "env"),
        agent_cfg=merge(session.agent_cfg, {"seed": seed}, "agent"),
    )


def make_env(session: Session, context: DistributedContext) -> VectorEnv:
    """Build the environments of this process, and check that they can be recorded if asked.

    Raises:
        EnvlabError: If the configuration makes no environment, or no video.
    """
    mode = render_mode(session.flags)
    env = session.task.make(session.env_cfg, context=context, render_mode=mode)
    check_recording(session.flags, env)
    return env


def open_run(
    session: Session, context: DistributedContext, flag: InterruptFlag, library: str
) -> Run:
    """Make the run directory of a settled session; the first thing that is written."""
    flags, num_envs = session.flags, session.env_cfg.scene.num_envs
    facts = {
        "task": session.task.id,
        "seed": session.agent_cfg.seed,
        "num_envs": num_envs,
        "global_num_envs": num_envs * context.world_size,
        "grad_sync": flags.grad_sync if context.is_distributed else None,
        "overrides": session.overrides,
        "flags": {key: value for key, value in vars(flags).items() if value not in (None, False)},
        "resumed_from": None if session.checkpoint is None else str(session.checkpoint),
    }
    run = Run.create(
        context,
        library=library,
        experiment=session.agent_cfg.experiment_name,
        run_name=session.agent_cfg.run_name,
        facts=facts,
        configs={"env": session.env_cfg, "agent": session.agent_cfg},
    )
    run.interrupt_signal = lambda: flag.signal_number
    logger.info("Writing to %s", run.directory)
    return run


def print_summary(task_id: str, library: str, run: Run, checkpoint: Path | None) -> None:
    """Print where the run is, and the command that plays it, as it can be typed here."""
    print(f"Run directory: {os.path.relpath(run.directory)}")
    if checkpoint is None:
        return
    path = os.path.relpath(checkpoint)
    script = Path(sys.argv[0]).with_name("play.py")
    play = f"python {script}" if script.is_file() else f"envlab play {library}"
    prefix = os.environ.get("ENVLAB_SH")  # set by envlab.sh, which need not be activated
    print(f"Last checkpoint: {path}")
    print(f"Play it: {f'{prefix} ' if prefix else ''}{play} --task={task_id} --checkpoint={path}")


def _compose(
    flags: argparse.Namespace, job: Sequence[str], library: str, agent_cfg: Callable[[], Any]
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
    checkpoint, run = locate_checkpoint(
        library, session.agent_cfg.experiment_name, flags.load_run, flags.checkpoint
    )
    resumed = load_checkpoint(checkpoint)
    check_origin(resumed, checkpoint, task=session.task, library=library)
    if params is None and (run / "params" / "env.yaml").is_file():
        session = compose_session(flags, job, library=library, agent_cfg=agent_cfg(), params=run)
    session.checkpoint, session.resumed = checkpoint, resumed
    return session
