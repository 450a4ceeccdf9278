"""A training from its script to the loop: words, plans, the other ranks, ``Training.run``.

Errors in the words alone are reported before torch and the library take seconds to load, so the
functions here import the modules that need them.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envlab.arguments import ArgumentParser
from envlab.distributed.interrupt import InterruptFlag, Preempted, interruptible
from envlab.distributed.program import configure_logging, run_script
from envlab.distributed.ranks import NUM_PROCESSES, check_num_processes, launched_rank
from envlab.errors import ConfigurationError
from envlab.libraries import Library, get_library
from envlab.training._requeue import check_requeue
from envlab.training.arguments import read_words
from envlab.training.flags import Flags
from envlab.training.inputs import given_config
from envlab.training.sweep import sweep_table, swept_values

if TYPE_CHECKING:
    from envlab.config import Override
    from envlab.distributed.context import DistributedContext
    from envlab.run.directory import Run
    from envlab.training.plan import RunPlan
    from envlab.training.preparation import Prepared

logger = logging.getLogger(__name__)

CLOSE_S = 600.0
"""How long services may take to close, such as for the rest of an upload."""


def train(library: str, arguments: Sequence[str] | None = None) -> int:
    """Run a library's ``train.py``; return the exit code.

    The path to the loop: :func:`train_with` reads the words; :func:`run_training` makes plans and
    joins the other ranks; :func:`train_plan` builds the environment and learner of one, and
    :func:`train_prepared` runs :meth:`envlab.training.loop.Training.run`.
    """
    return run_script(lambda words: train_with(get_library(library), words), arguments)


def train_with(library: Library, words: Sequence[str], choice: str = "") -> int:
    """Train as the words ask, in this process, or in several that ``--nproc`` starts.

    Args:
        library: The library to train with.
        words: The words after the library.
        choice: A line about how the library was chosen.
    """
    if library.prepare is not None:
        # Its changes to the words may depend on the number of processes.
        code = _launch(library.name, words)
        if code is not None:
            return code
    flags, overrides = read_words("train", library, words, choice)
    if flags.nproc is not None:
        return _launch(library.name, words) or 0
    return run_training(library, flags, overrides)


def run_training(
    library: Library,
    flags: Flags,
    overrides: list[Override],
    directories: list[Path | None] | None = None,
) -> int:
    """Train as the command line asks; with ``-m``, one run after the other.

    Args:
        library: The library to train with.
        flags: Parsed flags.
        overrides: Hydra overrides.
        directories: Receives the directory of each run that reached its end, or None if there was
            nothing left to train.

    Returns:
        The exit code: 0, 70 if another rank was lost, 75 for a run that was preempted and saved,
        or 128 + the number of the signal that ended the run.

    Raises:
        EnvlabError: For bad input, before anything is written.
    """
    from envlab.config import expand_sweep
    from envlab.training.agreement import check_agreement
    from envlab.training.plan import plan_run
    from envlab.training.rank import Rank
    from envlab.training.start import decide_start

    configure_logging(launched_rank(), verbose=flags.verbose)  # composing may log already
    jobs = expand_sweep(overrides) if flags.multirun else [overrides]
    check_requeue(flags)
    base = given_config(flags)
    plans = [
        dataclasses.replace(plan_run(flags, job, library, base), swept=swept)
        for job, swept in zip(jobs, swept_values(jobs), strict=True)
    ]
    _check_sweep(plans)
    directories = [] if directories is None else directories

    try:
        with interruptible() as flag, Rank(flags, flag) as rank:
            context = rank.join()
            with context.progress.naming_lost_peers():
                check_agreement(plans, context)
                for job, plan in enumerate(plans, 1):
                    if flags.multirun:
                        words = " ".join(str(override.input_line) for override in plan.overrides)
                        logger.info("Run %d of %d: %s", job, len(plans), words)
                    started = decide_start(plan, context, number=rank.number(job))
                    if started is None:
                        directories.append(None)
                    elif flags.dry_run:
                        _print_dry_run(started, context)
                    else:
                        directories.append(train_plan(started, context, flag))
        return rank.exit_code
    finally:
        if len(plans) > 1 and directories and launched_rank() == 0:
            print(f"\n{sweep_table([plan.swept for plan in plans], directories)}")


def train_plan(plan: RunPlan, context: DistributedContext, flag: InterruptFlag) -> Path:
    """Train to the end of the budget; return the run directory.

    Args:
        plan: What to train.
        context: The process's context.
        flag: Has the signal that ended the run, if any.

    Raises:
        EnvlabError: For bad input, before a run directory is made.
    """
    from envlab.training.preparation import prepare, print_resume, print_summary

    prepared = prepare(plan, context, plan.library.load("build"))
    try:
        run, checkpoint = train_prepared(prepared, context, flag)
    except Preempted as end:
        if context.is_main and end.checkpoint is not None:
            print_summary(prepared.plan, end.checkpoint.parents[1], end.checkpoint)
            print_resume(end.checkpoint)
        raise
    if context.is_main:
        print_summary(prepared.plan, run.directory, checkpoint)
    return run.directory


def train_prepared(
    prepared: Prepared, context: DistributedContext, flag: InterruptFlag
) -> tuple[Run, Path | None]:
    """Train the result of :func:`prepare`; return the run, and its last checkpoint on rank 0."""
    from envlab.envs.manager_env import ManagerEnv, active_terms
    from envlab.training.loop import Training
    from envlab.training.preparation import open_curves_of, open_run
    from envlab.training.validator_process import start_validator
    from envlab.training.video import start_recording
    from envlab.training.viewing import start_viewing

    plan, cfg, scaling = prepared.plan, prepared.cfg, prepared.plan.scaling
    env, learner, total = prepared.env, prepared.learner, prepared.total_iterations
    flags, start, progress = plan.flags, plan.start, context.progress
    assert scaling is not None
    opened = open_run(plan, context, flag, scaling.facts)
    with opened as run:
        progress.directory = run.directory
        env.log_dir = run.directory
        run.update(total_iterations=total)
        if context.is_main and isinstance(env.unwrapped, ManagerEnv):
            logger.info("Terms of the task:\n%s", active_terms(env.unwrapped))
        training = Training(
            learner,
            env,
            context,
            run,
            cfg=cfg,
            origin={
                "library": plan.library.name,
                "task": plan.task.id,
                "learning_rate_factor": scaling.factor,
                "scaled_for": scaling.size,
                **cfg.origin,
            },
            total_iterations=total,
            curves=open_curves_of(run, cfg) if context.is_main else None,
            recorder=start_recording(flags, env, run.directory / "videos" / "train"),
            viewer=start_viewing(flags, env, title=f"{plan.task.id} in training"),
            stop_signal=lambda: flag.signal_number,
        )
        validator = start_validator(plan, run.directory, context)
        try:
            with progress.naming_lost_peers():
                if start.saved is not None:
                    at = str(start.checkpoint)
                    training.saver.restore(
                        start.saved,
                        at,
                        start.changed,
                        start.other_code,
                        deals=plan.deals_environments,
                    )
                with flag.deferred():
                    training.run(done=0 if start.saved is None else int(start.saved["iteration"]))
            if validator is not None:
                with progress.waiting(2.0 * validator.child.timeout_s):
                    validator.finish()
        except (Preempted, Exception) as end:
            # Leaving may take seconds, in which torchrun's SIGTERM, caused by another rank's end,
            # would replace this error.
            if context.is_distributed or isinstance(end, Preempted):
                flag.ignore_more()
            raise
        finally:
            if validator is not None:
                validator.close()
            with progress.waiting(CLOSE_S):
                training.close()
            env.close()
    return run, training.saver.last_checkpoint


def _print_dry_run(plan: RunPlan, context: DistributedContext) -> None:
    """Print the plan of a run; every rank must call this."""
    from envlab.training.dry_run import default_flags, dry_run
    from envlab.training.dry_run_text import dry_run_text
    from envlab.training.plan import plan_run

    defaults = plan_run(default_flags(plan.flags), [], plan.library)
    found = dry_run(plan, context, defaults=defaults)
    if context.is_main:
        print(dry_run_text(found), flush=True)


def _check_sweep(plans: Sequence[RunPlan]) -> None:
    """Refuse a flag that would override a swept value."""
    for name, key in plans[0].agent_cfg.FLAGS.items():
        if len({repr(plan.overridden_by_flag.get(name)) for plan in plans}) > 1:
            raise ConfigurationError(
                f"--{name} sets agent.{key} in every run, but it is swept. Leave one of them out."
            )


def _launch(library: str, arguments: Sequence[str]) -> int | None:
    """Train on several processes of this machine, if ``--nproc`` asks for it, and wait for them."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument(*NUM_PROCESSES, type=int)
    flags, rest = parser.parse_known_args(list(arguments))
    if flags.nproc is None:
        return None
    check_num_processes(flags.nproc, os.environ)
    from envlab.distributed.torchrun import launch

    words = ["-m", "envlab", "train", library, *(word for word in rest if word != "--distributed")]
    return launch(flags.nproc, [*words, "--distributed"])
