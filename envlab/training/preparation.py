"""Preparation of a session's loop, and the summary after it, for any library."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envlab.agent_cfg import AgentCfg, set_value
from envlab.commit import code_digests
from envlab.config import merge
from envlab.distributed.agreement import name_ranks
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.log import on_each_node
from envlab.distributed.seeding import seed_everything
from envlab.envs import DirectMarlEnv, multi_agent_to_single_agent
from envlab.envs.action_use import ActionUse
from envlab.errors import CheckpointError, ConfigurationError
from envlab.learner import Learner
from envlab.run.commands import resume_words, typed
from envlab.run.directory import Run
from envlab.run.manifest import read_manifest
from envlab.training.agreement import own_packages
from envlab.training.curves import Curves, check_logger, open_curves
from envlab.training.population.environments import MemberEnvs
from envlab.training.population.learner import PopulationLearner
from envlab.training.scaling import Scaling, scale, settle_batches
from envlab.training.session import Session, agree_on_seed, choose_num_envs
from envlab.training.video import check_recording, render_mode
from envlab.training.viewing import check_viewing

logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True)
class Prepared:
    """A session with everything that it needs to start; nothing is written yet."""

    session: Session
    """The session, settled by :func:`settle`."""
    scaling: Scaling
    cfg: AgentCfg
    """The agent's configuration, resolved."""
    env: Any
    learner: Learner
    total_iterations: int
    """The iteration to end at."""


def prepare(
    session: Session,
    context: DistributedContext,
    build: Callable[[Session, Any, DistributedContext], Learner],
) -> Prepared:
    """Build environments and networks, and load the checkpoint to resume.

    Raises:
        EnvlabError: For bad input.
    """
    context.progress.begin()
    session = settle(session, context)
    flags, resumed = session.flags, session.resumed
    cfg: AgentCfg = session.agent_cfg.resolved()
    check_logger(cfg.logger)
    scaling = scale(session, context)
    seed_everything(cfg.seed)
    context.progress.mark("reset")
    with contextlib.ExitStack() as undone:
        if session.population_cfg.size:
            env, learner = make_population(scaling.session, context, build)
            undone.callback(env.close)
        else:
            env = make_env(session, context)
            undone.callback(env.close)  # or its workers would live until the error is freed
            learner = build(scaling.session, env, context)
            undone.callback(learner.close)
        seed_everything(cfg.seed + context.rank)
        if resumed is not None:
            if "population" in resumed["model"] and not session.population_cfg.size:
                raise CheckpointError(
                    "The checkpoint is of a population of "
                    f"{resumed['model']['population']['size']}. Resume it with --population_size, "
                    "or choose a checkpoint of a single learner."
                )
            learner.load_models(scaling.fit(resumed))
        frames_per_iteration = cfg.num_steps_per_env * env.num_envs * context.world_size
        if learner.frame_budget is not None:  # an iteration has a step of all environments or more
            frames_per_iteration = env.num_envs * context.world_size
        prepared = Prepared(
            session=session,
            scaling=scaling,
            cfg=cfg,
            env=env,
            learner=learner,
            total_iterations=total_iterations(
                cfg.max_iterations,
                flags.max_frames,
                frames_per_iteration,
                resumed,
                may_be_done=session.directory is not None,
            ),
        )
        undone.pop_all()
    return prepared


def make_population(
    session: Session,
    context: DistributedContext,
    build: Callable[[Session, Any, DistributedContext], Learner],
) -> tuple[MemberEnvs, Learner]:
    """Build this process's members, and the environments of each.

    Raises:
        EnvlabError: For bad input.
    """
    cfg, agent_cfg = session.population_cfg, session.agent_cfg
    envs = MemberEnvs(cfg.size, context, functools.partial(make_env, session))

    def build_member(agent_cfg: Any, env: Any) -> Learner:
        return build(dataclasses.replace(session, agent_cfg=agent_cfg), env, context.alone())

    facts = {
        "library": session.library.name,
        "task": session.task.id,
        **agent_cfg.origin,
        "num_envs": session.env_cfg.scene.num_envs,
    }
    return envs, PopulationLearner(cfg, agent_cfg, envs, build_member, context, facts)


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
            f"count from the first run on: give --max_iterations more than {done}."
        )
    return total


def settle(session: Session, context: DistributedContext) -> Session:
    """Return the session with the seed and number of environments that it runs with.

    Raises:
        ConfigurationError: If the number of environments makes no sense, or differs.
    """
    seed = agree_on_seed(session.agent_cfg.seed, context)
    env_seed = seed if session.env_cfg.seed is None else session.env_cfg.seed
    num_envs = choose_num_envs(session, context)
    everyone = context.gather(num_envs)
    if len(set(everyone)) > 1:  # a number may suit the cores of one node and not those of another
        raise ConfigurationError(
            f"The number of environments per process would be {name_ranks(everyone)}, but must be "
            "the same. Give it by --num_envs."
        )
    session = settle_batches(session)
    return dataclasses.replace(
        session,
        env_cfg=merge(session.env_cfg, {"scene": {"num_envs": num_envs}, "seed": env_seed}, "env"),
        agent_cfg=set_value(session.agent_cfg, session.agent_cfg.FLAGS["seed"], seed),
    )


def make_env(session: Session, context: DistributedContext, *, renders: bool = False) -> Any:
    """Build the environments of this process, and check that they can be recorded if asked.

    A multi-agent task becomes a single-agent one for an algorithm that supports only one agent.

    Args:
        session: The session whose environments to make.
        context: The process's context.
        renders: Whether ``env.render()`` makes pictures, even if no flag asks for them.

    Raises:
        EnvlabError: If the configuration makes no environment, or cannot be recorded.
    """
    mode = "rgb_array" if renders else render_mode(session.flags)
    env = session.task.make(session.env_cfg, context=context, render_mode=mode)
    stepped = env
    has_agents = isinstance(env, DirectMarlEnv)
    if session.agent_cfg.is_multi_agent and not has_agents:
        raise ConfigurationError(
            f"The algorithm trains several agents, but the task {session.task.id} has one. Choose "
            "a single-agent algorithm, or a multi-agent task."
        )
    if has_agents and not session.agent_cfg.is_multi_agent:
        env = multi_agent_to_single_agent(env)
    check_recording(session.flags, env)
    check_viewing(session.flags, env)
    if context.is_main and session.library.bound and stepped.actions.is_floating_point():
        bound = session.library.load("bound")(session.agent_cfg, env)
        if bound is not None:
            env.action_use = stepped.action_use = ActionUse.of(stepped, bound)
    return env


def open_run(
    session: Session,
    context: DistributedContext,
    flag: InterruptFlag,
    scaling: Mapping[str, Any],
) -> Run:
    """Make the run directory of a settled session, the first write of all."""
    flags, num_envs = session.flags, session.env_cfg.scene.num_envs
    facts = {
        "task": session.task.id,
        **session.agent_cfg.origin,
        "seed": session.agent_cfg.seed,
        "num_envs": num_envs,
        "global_num_envs": num_envs * (session.population_cfg.size or context.world_size),
        "grad_sync": flags.grad_sync if context.is_distributed else None,
        "scaling": dict(scaling),
        "overrides": [override.input_line for override in session.overrides],
        "swept": session.swept,
        "flags": flags.given(),
        "resumed_from": None if session.checkpoint is None else str(session.checkpoint),
        "policy_from": None if session.given_policy is None else session.given_policy["path"],
        "services": (session.resumed or {}).get(
            "services", {}
        ),  # of sessions, their trial has none
        "launch": session.launch,
        "code": code_digests(own_packages(session)),
    }
    if session.directory is not None:
        resumed = session.resumed or {"iteration": 0, "frames": 0}
        done = {name: int(resumed[name]) for name in ("iteration", "frames")}
        run = Run.reopen(
            context, session.directory, library=session.library.name, facts=facts, **done
        )
        run.interrupt_signal = lambda: flag.signal_number
        logger.info("Continuing in %s from iteration %d.", run.directory, done["iteration"])
        _say_on_other_nodes(run, context)
        return run
    configs = {"env": session.env_cfg, "agent": session.agent_cfg}
    if session.population_cfg.size:
        configs["population"] = session.population_cfg
    run = Run.create(
        context,
        library=session.library.name,
        experiment=session.agent_cfg.experiment_name,
        run_name=session.run_name,
        facts=facts,
        configs=configs,
        directory=session.destination,
    )
    run.interrupt_signal = lambda: flag.signal_number
    logger.info("Writing to %s", run.directory)
    _say_on_other_nodes(run, context)
    return run


def _say_on_other_nodes(run: Run, context: DistributedContext) -> None:
    """Log on each node other than rank 0's that it takes part, and where the run is."""
    writer = context.broadcast(context.node)
    if context.local_rank == 0 and not context.is_main:
        on_each_node.info(
            "Node %s trains as one of several, %d ranks in all. Rank 0, on %s, logs, and writes "
            "the run to %s there.",
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


def print_summary(session: Session, directory: Path, checkpoint: Path | None) -> None:
    """Print where the run is, and a command to type here that plays it."""
    print(f"Run directory: {os.path.relpath(directory)}")
    if checkpoint is None:
        return
    path = os.path.relpath(checkpoint)
    script = Path(sys.argv[0]).with_name("play.py")
    words = (
        ["python", str(script)] if script.is_file() else ["envlab", "play", session.library.name]
    )
    print(f"Last checkpoint: {path}")
    print("Play it:", typed([*words, *_what_was_trained(session), f"--checkpoint={path}"]))


def print_resume(checkpoint: Path) -> None:
    """Print the command that resumes the run of a checkpoint."""
    words = resume_words(read_manifest(checkpoint.parents[1]), checkpoint)
    print("Resume it:", typed(words) if words else "the same command with --resume.")


def _what_was_trained(session: Session) -> list[str]:
    """Return the flags that name the task or experiment that a session trained."""
    words = session.library.file_words(session.flags)
    if words:
        return words
    origin = [f"--{name}={value}" for name, value in session.agent_cfg.origin.items()]
    return [f"--task={session.task.id}", *origin]
