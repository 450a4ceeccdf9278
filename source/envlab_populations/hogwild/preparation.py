"""Preparation of a trial before its sessions start: device, cores, shared state, progress."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext, resolve_device
from envlab.distributed.limits import usable_cores
from envlab.distributed.seeding import seed_everything
from envlab.errors import ConfigurationError
from envlab.run.checkpoints import Checkpoints
from envlab.training.plan import RunPlan
from envlab.training.preparation import make_env
from envlab_populations.hogwild.baseline import random_baseline
from envlab_populations.hogwild.learner import make_learner
from envlab_populations.hogwild.records import newest_iteration
from envlab_populations.hogwild.sharing import Shared
from envlab_populations.hogwild.translation import Plan

logger = logging.getLogger(f"envlab.{__name__}")


@dataclass(kw_only=True)
class Options:
    """Options of a trial that are not in its spec."""

    device: str | None = None
    """``cpu``, ``cuda``; None: the spec's."""
    continues: bool = False
    """Whether sessions continue after one of them has failed."""
    timeout_s: float
    """Longest time that a session may make no progress."""
    verbose: bool = False
    trial: int = 0
    """Number of the trial, for its seeds."""
    resumes: Path | None = None
    """Directory of the trial to resume."""
    destination: Path | None = None
    """The directory to make; None: a new one for the spec."""


def choose_device(plan: Plan, options: Options) -> str:
    """Return the sessions' device; a GPU is used if asked for.

    Raises:
        EnvlabError: If there is none, or sessions cannot synchronise on it.
    """
    wanted = options.device or ("cuda" if plan.wants_gpu else "cpu")
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = resolve_device(wanted, 0, 1, num_gpus)
    if device.type == "cuda" and plan.agent.distributed == "synced":
        raise ConfigurationError(
            "meta.distributed is 'synced' on a GPU, where each gradient step would copy all "
            "parameters between processes, without an order that CUDA keeps. Use --device cpu, or "
            "'shared'."
        )
    return str(device)


def check_cores(plan: Plan) -> None:
    """Warn if sessions must share cores."""
    cores, sessions = usable_cores(), plan.agent.num_sessions
    if sessions > cores:
        logger.warning(
            "There are %d sessions for %d cores, so they take turns and are not pinned. "
            "-s meta.max_session=%d uses each core once.",
            sessions,
            cores,
            cores,
        )


def prepare_trial(
    plan: Plan, run_plan: RunPlan, context: DistributedContext, options: Options
) -> tuple[Shared | None, float]:
    """Build one agent, to check that the spec can be trained.

    Returns:
        The part that sessions share, if any, and the return of a random policy.
    """
    cfg = plan.agent.resolved()
    small = replace(cfg, replay=replace(cfg.replay, size=1))
    seed_everything(cfg.seed)
    env = make_env(run_plan, context)
    try:
        learner = make_learner(env, small, context)
        shared = None if cfg.distributed == "false" else Shared.of(learner.agent, cfg.optimizer)
        if shared is not None and options.resumes is not None:
            learner = make_learner(env, small, context, shared)
            last = last_saved(options.resumes / "sessions") / "checkpoints"
            _, values = Checkpoints(last).find("latest", lambda *_: None)
            learner.load_models(values)
        return shared, random_baseline(plan.task, env)
    finally:
        env.close()


def find_progress(plan: Plan, directory: Path) -> dict[str, Any]:
    """Return the progress that all sessions of a trial have saved.

    Raises:
        ConfigurationError: If one of them has no checkpoint, or there is nothing left to do.
    """
    done = []
    for number in range(plan.agent.num_sessions):
        done.append(newest_iteration(directory / "sessions" / str(number)))
    iteration = min(done)
    if iteration >= plan.agent.max_iterations:
        raise ConfigurationError(
            f"The trial {directory} has done its {iteration} iterations. Give it more frames: "
            f"-s env.max_frame={2 * plan.max_frame}."
        )
    frames = sum(done) * plan.agent.num_steps_per_env * plan.env["scene"]["num_envs"]
    return {"iteration": iteration, "frames": frames}


def last_saved(sessions: Path) -> Path:
    """Return the session that saved last, whose checkpoint has the newest shared state."""
    saved = {path.stat().st_mtime: path for path in sessions.glob("*/checkpoints/latest.pt")}
    return saved[max(saved)].parents[1]
