"""One run, one configuration: ranks compare theirs as soon as they have met, before training.

Ranks started with different configurations, code or versions would silently train together, and
the run's manifest would only have rank 0's.

While it trains, its ranks must agree in some values, and differ in others. Both are only read. No
generator is advanced, so a run is the same however often it is audited.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import mujoco

from envlab.commit import code_digests
from envlab.config import leaves, to_dict
from envlab.distributed.audit import audit, require_agreement
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_identities
from envlab.envs import BatchedEnv
from envlab.learner import Learner
from envlab.libraries import packages_alike
from envlab.registry import AGENT_SUFFIX, packages_of
from envlab.state import shared
from envlab.training.plan import RunPlan

_DECISIVE = ("num_envs", "global_num_envs", "max_frames", "grad_sync")
"""Flags that decide a run's results. Others are in the configuration, or belong to a node: its
device and paths, and the output of rank 0."""
_ALIKE = (*_DECISIVE, "multirun", "dry_run", "resume", "run_id", "allow_different_code")
"""These, and further flags that must be the same on all ranks."""
_PER_NODE = (
    *("env.sim.num_threads", "env.num_workers", "env.worker_timeout_s"),
    *(
        "agent.params.config.device",
        "agent.params.config.device_name",
        "agent.params.torch_threads",
    ),
)
"""Settings that change how fast a node is, but not its results."""


def check_agreement(plans: Sequence[RunPlan], context: DistributedContext) -> None:
    """Refuse to train if ranks differ in their work. Every rank must call this.

    Args:
        plans: The runs that this rank was asked to do, as the command line makes them.
        context: The process's context.

    Raises:
        ConfigurationError: On every rank alike, naming the differences, their values and ranks.
    """
    if not context.is_distributed:
        return
    first = plans[0]
    who = {"The library": first.library.name, "The task": first.task.id}
    require_agreement(context, who, _ANOTHER)
    require_agreement(context, settings_of(plans), _CONFIGURATION)
    if not first.flags.allow_different_code:
        require_agreement(context, _code_and_versions(first), _CODE)


_ANOTHER = "{found}. All ranks of a run train one task with one library: start them by one command."
_CONFIGURATION = (
    "The ranks were started with different configurations: {found}. A run has one: start all ranks "
    "by the same command, from the same files."
)
_CODE = (
    "The ranks would train with different code: {found}. Copy or check out the same on all nodes, "
    "with the same versions ('envlab doctor --distributed' compares all); or add "
    "--allow_different_code on all ranks if the differences don't matter."
)


def settings_of(plans: Sequence[RunPlan]) -> dict[str, str]:
    """Return the settings that decide a rank's results, by name: configurations and some flags.

    Settings of a node are omitted, and files are compared by content, not by path.
    """
    values = {f"--{name}": str(getattr(plans[0].flags, name)) for name in _ALIKE}
    for name, value in plans[0].library.file_values(plans[0].flags).items():
        values[f"--{name}"] = of_any_node(value)
    values["the number of runs"] = str(len(plans))
    for number, plan in enumerate(plans, 1):
        run = f"run {number}'s " if len(plans) > 1 else ""
        for root, cfg in plan.configs.items():
            for name, value in leaves(to_dict(cfg, root), root):
                if name not in _PER_NODE:
                    values[f"{run}{name}"] = of_any_node(value)
    return values


def digest_of(plan: RunPlan) -> str:
    """Return a digest of a plan's decisive settings: two runs with the same repeat each other."""
    values = {"library": plan.library.name, "task": plan.task.id} | settings_of([plan])
    for name in set(_ALIKE) - set(_DECISIVE):
        del values[f"--{name}"]
    text = "\n".join(f"{name}={value}" for name, value in values.items())
    return hashlib.sha256(text.encode()).hexdigest()


def of_any_node(value: Any) -> str:
    """Return a value as text, but a file as its name and a digest of it and its includes."""
    if isinstance(value, str) and ("/" in value or value.endswith(".py")) and Path(value).is_file():
        path, total = Path(value), hashlib.sha256()
        for part in sorted(_parts(path), key=lambda part: part.name):
            total.update(hashlib.sha256(part.read_bytes()).digest())
        return f"{path.name} ({total.hexdigest()[:12]})"
    return repr(value)


def _parts(path: Path) -> list[Path]:
    """Return a file, and those that a model includes: other models, meshes, textures."""
    if path.suffix != ".xml":
        return [path]
    try:
        parts = [Path(part) for part in mujoco.mju_getXMLDependencies(str(path))]
    except mujoco.FatalError:  # it is no model, which MuJoCo will report on loading
        parts = [path]
    return [part for part in parts if part.is_file()]


def _code_and_versions(plan: RunPlan) -> dict[str, str]:
    values = {"python": platform.python_version()}
    for package in packages_alike():
        try:
            values[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            values[package] = "absent"
    digests = code_digests(own_packages(plan))
    return values | {f"{name}'s code": digest for name, digest in digests.items()}


def own_packages(plan: RunPlan) -> set[str]:
    """Return the packages other than envlab's that a plan's task and library come from."""
    task, library = plan.task.kwargs, plan.library
    of_task = [value for key, value in task.items() if key.endswith(AGENT_SUFFIX)]
    return packages_of([*of_task, library.cfg, library.build, library.player])


def audit_run(
    learner: Learner,
    env: BatchedEnv,
    context: DistributedContext,
    counters: Mapping[str, Any],
    *,
    iteration: int,
) -> None:
    """Compare the ranks of a run; every rank must call this.

    Args:
        learner: The library's algorithm.
        env: This rank's environments.
        context: The process's context.
        counters: The run's own counters, see :func:`shared_values`.
        iteration: Iterations done, for the message.

    Raises:
        RankDivergenceError: On every rank alike, naming the values, the ranks and the iteration.
    """
    if context.is_distributed:
        shared = shared_values(learner, env, context, counters)
        audit(context, shared, own_values(learner, env), iteration=iteration)


def shared_values(
    learner: Learner, env: BatchedEnv, context: DistributedContext, counters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values that must be bit-identical on all ranks.

    Args:
        learner: Its networks, optimizers, normalisers, schedulers and counters, and what it
            declares as shared.
        env: What it declares as shared, such as its seed, its counters and curricula. State that
            environments acquire, such as terrain levels, is each environment's own.
        context: The process's context.
        counters: The run's iteration, frames, budget, learning rate, mean returns.
    """
    # Counters and curricula follow the steps, of which ranks may make different numbers.
    alike: dict[str, Any] = {"environments": {"seed": env.random.base_seed}}
    if learner.steps_alike:
        alike = {"environments": shared(env), "learner": shared(learner)}
    return {
        **learner.model_state(),
        **alike,
        "run": dict(counters),
        "world": {
            "environments per process": env.num_envs,
            # Equal on all ranks if every rank's environments follow those of the previous rank.
            "first environment of rank 0": int(env.random.env_ids[0]) - context.rank * env.num_envs,
        },
    }


def own_values(learner: Learner, env: BatchedEnv) -> dict[str, Any]:
    """Return the values that no two ranks may share: streams of environments and of actions."""
    return {
        "environment streams": env.random.fingerprint(),
        "generators": generator_identities(),
        "action noise": learner.noise_keys(),
    }
