"""A session: a process that trains one agent, on its own or on shared parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import Interrupted, InterruptFlag, interruptible
from envlab.distributed.program import configure_logging
from envlab.distributed.watchdog import Watchdog
from envlab.errors import ConfigurationError, EnvlabError
from envlab.libraries import get_library
from envlab.registry import get_task, load_env_cfg
from envlab.run.checkpoints import Checkpoints
from envlab.run.manifest import read_manifest, record_end
from envlab.training.flags import Flags
from envlab.training.launch import train_prepared
from envlab.training.plan import RunPlan, Start
from envlab.training.preparation import prepare
from envlab.training.start import other_code
from envlab_populations.hogwild.learner import HogwildLearner, make_learner
from envlab_populations.hogwild.sharing import Shared, optimizers, parameters_of
from envlab_populations.hogwild.translation import Plan

TRIAL_SEEDS, SESSION_SEEDS = 100_000, 1_000
"""Distance of the seeds of trials and of sessions, as in SLM-Lab, which adds the time."""


@dataclass(kw_only=True)
class SessionOrder:
    """The arguments of a session's process."""

    plan: Plan
    number: int
    """Number of the session, from 0."""
    directory: Path
    """The session's own, ``sessions/<number>`` of the trial's."""
    device: str
    frames: torch.Tensor
    """Frames of each session so far, int64 ``(num_sessions,)``, in shared memory."""
    shared: Shared | None
    """The state that sessions share; None if they are independent."""
    core: int | None
    """The core to stay on; None if there are fewer cores than sessions."""
    resumes: bool
    timeout_s: float
    verbose: bool


def plan_session(plan: Plan, *, device: str, number: int = 0, trial: int = 0) -> RunPlan:
    """Return the run that a session of a plan is, for the training loop."""
    task, library = get_task(plan.task), get_library("hogwild")
    values = dict(plan.env)
    if plan.task.startswith("gym:"):
        values["num_workers"] = 0  # the cores are the sessions'
    seed = plan.agent.seed + TRIAL_SEEDS * trial + SESSION_SEEDS * number
    flags = Flags(command="train", task=task.id, device=device)
    return RunPlan(
        library=library,
        task=task,
        env_cfg=merge(load_env_cfg(task), values, "env"),
        agent_cfg=replace(plan.agent, seed=seed),
        flags=flags,
        is_num_envs_given=True,
    )


def output_of(directory: Path) -> Path:
    """Return the file of a session's output; its directory is made later."""
    return directory.with_name(f"{directory.name}.txt")


def run_session(order: SessionOrder) -> None:
    """Train a session to its end, and end the process with an exit code.

    The exit code is 0, 2 for bad input, 70 if it hung, 75 if a signal ended it and its state was
    saved; else Python's or the signal's.
    """
    redirect_output(output_of(order.directory))
    if order.core is not None:
        os.sched_setaffinity(0, {order.core})
    torch.set_num_threads(1)
    configure_logging(verbose=order.verbose)
    device = torch.device(order.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    context = DistributedContext(device=device, num_threads=1)
    with interruptible() as flag:
        watchdog = Watchdog(
            context, end_run=record_end, timeout_s=order.timeout_s, has_launcher=True
        )
        code = 0
        try:
            _train(order, context, flag)
        except EnvlabError as error:
            print(f"error: {error}", file=sys.stderr)
            code = error.exit_code
        except Interrupted as interrupted:
            code = interrupted.exit_code
        finally:
            context.close()
            watchdog.close()
    if code:
        sys.exit(code)


def _train(order: SessionOrder, context: DistributedContext, flag: InterruptFlag) -> None:
    plan = plan_session(order.plan, device=order.device, number=order.number)
    if order.resumes:
        checkpoints = Checkpoints(order.directory / "checkpoints")
        checkpoint, saved = checkpoints.find("latest", lambda *_: None)
        start = Start(
            directory=order.directory,
            checkpoint=checkpoint,
            saved=saved,
            other_code=other_code(read_manifest(order.directory), plan),
        )
        plan = replace(plan, start=start)
    else:
        plan = replace(plan, destination=order.directory)

    def build(plan: RunPlan, env: Any, context: DistributedContext) -> HogwildLearner:
        learner = make_learner(env, plan.agent_cfg.resolved(), context, order.shared)
        learner.leaves_shared = order.resumes  # the trial has loaded the shared state
        learner.count = count
        return learner

    def count(num_frames: int) -> None:
        order.frames[order.number] += num_frames

    prepared = prepare(plan, context, build)
    before = trained_values(prepared.learner)
    train_prepared(prepared, context, flag)
    if order.plan.is_dev:
        check_learned(before, trained_values(prepared.learner))


def check_learned(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]) -> None:
    """Check that training has changed every tensor, and to finite numbers.

    Raises:
        ConfigurationError: Naming the tensors, by optimizer and position.
    """
    broken = [name for name, values in after.items() if not bool(values.isfinite().all())]
    same = [name for name, values in after.items() if torch.equal(values, before[name])]
    if broken:
        raise ConfigurationError(
            f"After training, these parameters are not numbers: {', '.join(broken)}. Lower the "
            "learning rate, or clip gradients (agent.net.clip_grad_val)."
        )
    if same:
        raise ConfigurationError(
            f"Training has not changed these parameters: {', '.join(same)}. Lower "
            "agent.algorithm.training_start_step, or check the learning rate."
        )


def trained_values(learner: Any) -> dict[str, torch.Tensor]:
    """Return copies of the parameters that an agent's optimizers train."""
    return {
        f"{name} {number}": parameter.detach().clone()
        for name, optimizer in optimizers(learner.agent)
        for number, parameter in enumerate(parameters_of(optimizer))
    }


def redirect_output(path: Path) -> None:
    """Send what this process prints to a file: lines of several sessions would mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
