"""``--dry_run``: everything that a run does up to its first step, without writing anything.

Environments and networks are built with the run's own code, so anything that it would refuse is
refused here, and sizes are counted rather than guessed. No environment is stepped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from envlab.agent_cfg import AgentCfg
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.limits import free_memory
from envlab.distributed.seeding import generator_state
from envlab.errors import RunDirectoryError
from envlab.run.manifest import LOG_ROOT
from envlab.state import save
from envlab.training.flags import Flags
from envlab.training.footprint import Footprint, Scale, saved_bytes
from envlab.training.plan import RunPlan
from envlab.training.preparation import Prepared, prepare

CHOOSING = ("command", "task", "agent", "algorithm", "ml_framework")
"""Flags that choose the defaults; all others change them."""


@dataclass(kw_only=True)
class ProcessNeeds:
    """Where one rank would run, and the resources that it would need."""

    node: str
    device: str
    num_threads: int
    footprint: Footprint
    state_bytes: int
    """Size of its part of a checkpoint."""
    free_bytes: int
    """Free memory on its node, shared by all processes of the node."""
    local_rank: int
    gpu_bytes: tuple[int, int] | None = None
    """Memory in use on its GPU by all programs, and the GPU's total; null on a CPU."""

    @property
    def host_bytes(self) -> int:
        """Memory of the node that it would need: what is built, and on a CPU all the rest."""
        return self.footprint.total if self.gpu_bytes is None else self.footprint.built


@dataclass(kw_only=True)
class DryRun:
    """The plan of a run and its needs; :mod:`envlab.training.dry_run_text` puts them in words."""

    plan: RunPlan
    """The plan, settled with its seed and number of environments."""
    defaults: RunPlan
    scaled: dict[str, Any]
    """Learning rates and batch sizes that the number of processes changes, by path."""
    cfg: AgentCfg
    """The agent's configuration, resolved."""
    directory: str
    """The run directory that would be made, or continued in."""
    backend: str | None
    processes: list[ProcessNeeds]
    """The processes, by rank."""
    iterations_done: int
    frames_done: int
    total_iterations: int
    has_replay_memory: bool
    """Whether checkpoints grow with a replay memory."""
    checkpoint_bytes: int
    """Size of a checkpoint with a full replay memory, if there is one."""
    resumes_exactly: bool
    """Whether checkpoints hold the environments."""
    free_disk_bytes: int

    @property
    def num_envs(self) -> int:
        """Environments per process, summed over its members with a population."""
        members = (self.plan.num_members or len(self.processes)) // len(self.processes)
        return int(self.plan.env_cfg.scene.num_envs) * members

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps of one iteration, of all processes."""
        return self.cfg.num_steps_per_env * self.num_envs * len(self.processes)

    @property
    def total_frames(self) -> int:
        """Environment steps of all processes at the end, including those before a resume."""
        left = self.total_iterations - self.iterations_done
        return self.frames_done + left * self.frames_per_iteration


def default_flags(flags: Flags) -> Flags:
    """Return flags that only choose the defaults, for comparison with the others."""
    return type(flags)(**{name: getattr(flags, name) for name in CHOOSING})


def dry_run(plan: RunPlan, context: DistributedContext, *, defaults: RunPlan) -> DryRun:
    """Return what a run would do. Every rank must call this.

    Args:
        plan: What would be trained.
        context: The process's context.
        defaults: The same task without flags and overrides, to show what they change.

    Raises:
        EnvlabError: For anything that the run would refuse before it starts.
    """
    scales: list[Scale] = []

    def build_on_scale(settled: RunPlan, env: Any, at: DistributedContext) -> Any:
        scales.append(Scale())
        return plan.library.load("build")(settled, env, at)

    prepared = prepare(plan, context, build_on_scale)
    try:
        footprint = scales[0].weigh(prepared.learner)
        return _found(prepared, context, footprint, defaults)
    finally:
        prepared.learner.close()
        prepared.env.close()


def _found(
    prepared: Prepared, context: DistributedContext, footprint: Footprint, defaults: RunPlan
) -> DryRun:
    plan, learner = prepared.plan, prepared.learner
    assert plan.scaling is not None
    directory = _directory(plan, context)
    saved: Mapping[str, Any] = plan.start.saved or {"iteration": 0, "frames": 0}
    own_state = save(learner)
    state = {
        "env": save(prepared.env),
        "episodes": torch.zeros(2, prepared.env.num_envs),  # returns and lengths so far
        "generators": generator_state(),
        "learner": own_state,
    }
    replay_bytes = footprint.rollouts if _has_replay_memory(own_state) else 0
    mine = ProcessNeeds(
        node=context.node,
        device=str(context.device),
        num_threads=context.num_threads,
        footprint=footprint,
        state_bytes=saved_bytes(state) + replay_bytes,
        free_bytes=free_memory(),
        local_rank=context.local_rank,
        gpu_bytes=_gpu_memory(context),
    )
    processes: list[ProcessNeeds] = context.gather(mine)
    model_bytes = saved_bytes(learner.model_state()) + footprint.moments_saved
    return DryRun(
        plan=plan,
        defaults=defaults,
        cfg=prepared.cfg,
        scaled=plan.scaling.learning_rates | plan.scaling.batch_sizes,
        directory=os.path.relpath(directory),
        backend=context.backend,
        processes=processes,
        iterations_done=int(saved["iteration"]),
        frames_done=int(saved["frames"]),
        total_iterations=prepared.total_iterations,
        has_replay_memory=replay_bytes > 0,
        resumes_exactly=prepared.env.resumes_exactly,
        checkpoint_bytes=model_bytes + sum(process.state_bytes for process in processes),
        free_disk_bytes=shutil.disk_usage(_existing(directory)).free,
    )


def _gpu_memory(context: DistributedContext) -> tuple[int, int] | None:
    if context.device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(context.device)
    return total - free, total


def _has_replay_memory(own_state: Mapping[str, Any]) -> bool:
    """Return whether a rank saves a memory of transitions, which is still empty and fills up."""
    return any(name.split(".")[-1] in ("filled", "full") for name in flatten(own_state))


def _directory(plan: RunPlan, context: DistributedContext) -> Path:
    """Return the run directory that would be made.

    Raises:
        RunDirectoryError: On every rank, if it could not be made.
    """
    if plan.start.directory is not None:
        return plan.start.directory
    cfg = plan.agent_cfg
    parent = Path(LOG_ROOT).absolute() / plan.library.name / cfg.experiment_name
    found = _existing(parent)
    problem = None
    if not found.is_dir():
        problem = f"{found} is not a folder"
    elif not os.access(found, os.W_OK | os.X_OK):
        problem = f"{found} may not be written to"
    problem = context.broadcast(problem)
    if problem is not None:
        raise RunDirectoryError(
            f"The run directory under {parent} cannot be made ({problem}). Run from a folder "
            "that you may write to, and where there is room."
        )
    return parent / "_".join(filter(None, ("<date>_<time>", plan.run_name)))


def _existing(path: Path) -> Path:
    """Return the nearest existing path among a path and its parent folders."""
    return next(each for each in (path, *path.parents) if each.exists())
