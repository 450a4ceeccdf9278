"""Preparation of a plan's loop, and the summary after it, for any library."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envlab.agent_cfg import AgentCfg
from envlab.commit import code_digests
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.program import on_each_node
from envlab.distributed.seeding import seed_everything
from envlab.envs import DirectMarlEnv, multi_agent_to_single_agent
from envlab.envs.action_use import ActionUse
from envlab.errors import ConfigurationError
from envlab.learner import Learner
from envlab.run.checkpoints import check_single
from envlab.run.commands import resume_words, typed
from envlab.run.directory import Run
from envlab.run.manifest import read_manifest
from envlab.training.agreement import digest_of, own_packages
from envlab.training.averaging import Averaging
from envlab.training.curves import Curves, check_logger, open_curves
from envlab.training.flags import guest_words
from envlab.training.plan import RunPlan, settle
from envlab.training.video import check_recording, render_mode
from envlab.training.viewing import check_viewing

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan with everything that it needs to start, before any file is written."""

    plan: RunPlan
    """The plan, settled by :func:`envlab.training.plan.settle`."""
    cfg: AgentCfg
    """The agent's configuration, resolved."""
    env: Any
    learner: Learner
    total_iterations: int
    """The iteration to end at."""


def prepare(
    plan: RunPlan,
    context: DistributedContext,
    build: Callable[[RunPlan, Any, DistributedContext], Learner],
) -> Prepared:
    """Build environments and networks, and load the checkpoint to resume from.

    Raises:
        EnvlabError: For bad input.
    """
    context.progress.begin()
    plan = settle(plan, context)
    saved, cfg = plan.start.saved, plan.agent_cfg.resolved()
    check_logger(cfg.logger)
    seed_everything(cfg.seed)
    context.progress.mark("reset")
    with contextlib.ExitStack() as undone:
        make = plan.library.load("env") if plan.library.env else make_env
        env = make(plan, context)
        undone.callback(env.close)  # or its workers would live until the error is freed
        learner = build(plan.for_learner, env, context)
        undone.callback(learner.close)
        if plan.flags.grad_sync == "local":
            learner.averaging = Averaging(learner, context, cfg)
        seed_everything(cfg.seed + context.rank)
        if saved is not None:
            if not learner.has_members:
                check_single(saved)
            assert plan.scaling is not None
            learner.load_models(plan.scaling.fit(saved, plan.start.changed))
        frames_per_iteration = cfg.num_steps_per_env * env.num_envs * context.world_size
        if learner.frame_budget is not None:  # an iteration has a step of all environments or more
            frames_per_iteration = env.num_envs * context.world_size
        total = total_iterations(
            cfg.max_iterations,
            plan.flags.max_frames,
            frames_per_iteration,
            saved,
            may_be_done=plan.start.kind == "continue",
        )
        undone.pop_all()
    return Prepared(plan=plan, cfg=cfg, env=env, learner=learner, total_iterations=total)


def total_iterations(
    max_iterations: int,
    max_frames: int | None,
    frames_per_iteration: int,
    resumed: Mapping[str, Any] | None,
    *,
    may_be_done: bool = False,
) -> int:
    """Return the iteration to end at, including those before a resume.

    Args:
        max_iterations: The budget in iterations.
        max_frames: The budget in environment steps of all processes, instead of iterations.
        frames_per_iteration: Environment steps of one iteration, of all processes.
        resumed: The checkpoint to resume, if any. Its frames were counted, because a run with
            another number of processes had other frames per iteration.
        may_be_done: Whether nothing may be left to do: of a launch that was killed between its last
            checkpoint and its end, the end is left.

    Raises:
        ConfigurationError: If there is nothing left to do.
    """
    done, frames = (0, 0) if resumed is None else (resumed["iteration"], resumed["frames"])
    if max_frames is not None and max_frames <= 0:
        raise ConfigurationError(f"--max_frames is {max_frames}, but must be greater than 0.")
    total = max_iterations
    if max_frames is not None:
        total = done + math.ceil((max_frames - frames) / frames_per_iteration)
    if may_be_done and 0 < done >= total:
        return done
    if total <= done or total < 1:
        raise ConfigurationError(
            f"The run is to end at iteration {total}, but {done} are done already. Iterations "
            f"of earlier runs count: give --max_iterations more than {done}."
        )
    return total


def make_env(plan: RunPlan, context: DistributedContext, *, renders: bool = False) -> Any:
    """Build the environments of this process, and check that they can be recorded if asked.

    A multi-agent task becomes a single-agent one for an algorithm that supports only one agent.

    Args:
        plan: The plan whose environments to make.
        context: The process's context.
        renders: Whether ``env.render()`` makes pictures, even if no flag asks for them.

    Raises:
        EnvlabError: If the configuration makes no environment, or cannot be recorded.
    """
    mode = "rgb_array" if renders else render_mode(plan.flags)
    env = plan.task.make(plan.env_cfg, context=context, render_mode=mode)
    stepped = env
    has_agents = isinstance(env, DirectMarlEnv)
    if plan.agent_cfg.is_multi_agent and not has_agents:
        raise ConfigurationError(
            f"The algorithm trains several agents, but the task {plan.task.id} has one. Choose "
            "a single-agent algorithm, or a multi-agent task."
        )
    if has_agents and not plan.agent_cfg.is_multi_agent:
        env = multi_agent_to_single_agent(env)
    check_recording(plan.flags, env)
    check_viewing(plan.flags, env)
    if context.is_main and plan.library.bound and stepped.actions.is_floating_point():
        bound = plan.library.load("bound")(plan.agent_cfg, env)
        if bound is not None:
            env.action_use = stepped.action_use = ActionUse.of(stepped, bound)
    return env


def open_run(
    plan: RunPlan,
    context: DistributedContext,
    flag: InterruptFlag,
    scaling: Mapping[str, Any],
) -> Run:
    """Make the run directory of a settled plan, or continue in one: the first write of all."""
    start, num_envs = plan.start, plan.env_cfg.scene.num_envs
    saved = start.saved or {"iteration": 0, "frames": 0}
    facts = {
        "task": plan.task.id,
        **plan.agent_cfg.origin,
        "seed": plan.agent_cfg.seed,
        "num_envs": num_envs,
        "global_num_envs": num_envs * (plan.num_members or context.world_size),
        "grad_sync": plan.flags.grad_sync if context.is_distributed else None,
        "scaling": dict(scaling),
        "plan": digest_of(plan),
        "overrides": [override.input_line for override in plan.overrides],
        "swept": dict(plan.swept),
        "flags": plan.flags.given(),
        "resumed_from": None if start.checkpoint is None else str(start.checkpoint),
        "policy_from": None if start.policy is None else start.policy["path"],
        "services": saved.get("services", {}),  # of sessions, their trial has none
        "launch": dict(plan.launch),
        "code": code_digests(own_packages(plan)),
    }
    if start.directory is None:
        run = Run.create(
            context,
            library=plan.library.name,
            experiment=plan.agent_cfg.experiment_name,
            run_name=plan.run_name,
            facts=facts,
            configs=plan.configs,
            directory=plan.destination,
        )
        logger.info("Writing to %s", run.directory)
    else:
        done = {name: int(saved[name]) for name in ("iteration", "frames")}
        run = Run.reopen(context, start.directory, library=plan.library.name, facts=facts, **done)
        logger.info("Continuing in %s from iteration %d.", run.directory, done["iteration"])
    run.interrupt_signal = lambda: flag.signal_number
    _say_on_other_nodes(run, context)
    return run


def _say_on_other_nodes(run: Run, context: DistributedContext) -> None:
    """Log on each node other than rank 0's that it takes part, and where the run is."""
    writer = context.broadcast(context.node)
    if context.local_rank == 0 and not context.is_main:
        on_each_node.info(
            "Node %s is part of a job of %d ranks. Rank 0, on %s, logs, and writes the run to %s "
            "on that node.",
            context.node,
            context.world_size,
            writer,
            run.directory,
        )


def open_curves_of(run: Run, cfg: AgentCfg) -> Curves:
    """Open a run's curves, and record a service's id of the run. On rank 0."""
    name = cfg.logger
    curves = open_curves(
        name,
        run.directory,
        service_id=run.services.get(name),
        project=cfg.log_project_name,
        entity=cfg.wandb_entity,
    )
    if curves.service_id is not None:
        logger.info(
            "Metrics also go to %s, run %s, project %s.",
            name,
            curves.service_id,
            cfg.log_project_name or "by default",
        )
        run.update(services={**run.services, name: curves.service_id})
    return curves


def print_summary(plan: RunPlan, directory: Path, checkpoint: Path | None) -> None:
    """Print where the run is, and a command to type here that plays it."""
    print(f"Run directory: {os.path.relpath(directory)}")
    if checkpoint is None:
        return
    path = os.path.relpath(checkpoint)
    script = Path(sys.argv[0]).with_name("play.py")
    words = ["python", str(script)] if script.is_file() else ["envlab", "play", plan.library.name]
    print(f"Last checkpoint: {path}")
    print("Play it:", typed([*words, *_what_was_trained(plan), f"--checkpoint={path}"]))


def print_resume(checkpoint: Path) -> None:
    """Print the command that resumes the run of a checkpoint."""
    words = resume_words(read_manifest(checkpoint.parents[1]), checkpoint)
    print("Resume it:", typed(words) if words else "the same command with --resume.")


def _what_was_trained(plan: RunPlan) -> list[str]:
    """Return the flags that name the task or experiment that a plan trains."""
    words = plan.library.file_words(plan.flags)
    if words:
        return words
    origin = [f"--{name}={value}" for name, value in plan.agent_cfg.origin.items()]
    return [
        *guest_words(plan.flags, "play"),
        f"--task={plan.flags.task or plan.task.id}",
        *origin,
    ]
