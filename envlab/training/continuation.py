"""How a run resumes from its checkpoint: exactly, with redistributed or with fresh environments.

The total number of environments stays the same. On the same number of processes, each gets back
what it had. On another number, the environments are dealt out by their global index: process 1 of 2
gets the second half of what process 0 of 1 had. See :func:`envlab.state.deal`.

A return means only as much as its task: a policy that earned it under other rewards, commands,
terminations or events has not been evaluated in the task as registered. So the differences between
a run's environment and the task registered under its id are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envlab.config import to_dict
from envlab.errors import ConfigurationError
from envlab.registry import Task, load_env_cfg
from envlab.state import Share, without_tensors

How = Literal["as it was", "dealt", "anew"]
"""Which environments, episodes and learner's memories each process gets back."""


def resume_mode(
    saved: Mapping[str, Any], world_size: int, num_envs: int, seed: int, *, deals: bool
) -> How:
    """Return how a run resumes from a checkpoint.

    Args:
        saved: The checkpoint.
        world_size: Number of processes.
        num_envs: Environments of each.
        seed: The run's base seed.
        deals: Whether environments can be dealt, see
            :attr:`envlab.training.plan.RunPlan.deals_environments`.
    """
    if saved["seed"] != seed:
        return "anew"
    if (saved["world_size"], saved["num_envs"]) == (world_size, num_envs):
        return "as it was"
    return "dealt" if deals and total_of(saved) == world_size * num_envs else "anew"


def describe_resume(
    saved: Mapping[str, Any], how: How, world_size: int, num_envs: int, *, resumes_exactly: bool
) -> str:
    """Describe what continues, and what starts fresh unless everything is as it was."""
    size, each = saved["world_size"], saved["num_envs"]
    if how == "anew":
        return (
            "networks, optimizer, learning rate and counters continue; environments and "
            f"generators start fresh, because it was saved on {_processes(size)} of {each} "
            f"environments with seed {saved['seed']}"
        )
    kept = "environments, memories and counters continue"
    if not resumes_exactly:
        own = ", generators" if how == "as it was" else ""
        kept = (
            f"networks, optimizer, learning rate, memories{own} and counters continue; episodes "
            "start fresh, because Gymnasium's environments cannot be saved"
        )
    if how == "as it was":
        return kept
    return (
        f"on {_processes(world_size)} of {num_envs} environments instead of {size} of {each}: "
        f"{kept}; draws of actions and the order of minibatches differ"
    )


def _processes(number: int) -> str:
    return f"{number} process{'' if number == 1 else 'es'}"


# ---- The number of environments ------------------------------------------------------------------


def total_of(saved: Mapping[str, Any]) -> int:
    """Return the number of environments of all processes that a checkpoint has."""
    return int(saved["world_size"] * saved["num_envs"])


def begun_on(saved: Mapping[str, Any]) -> int:
    """Return the number of processes that a checkpoint's run began with."""
    return int(saved.get("scaled_for", saved["world_size"]))


def share_of_total(saved: Mapping[str, Any], world_size: int) -> int:
    """Return how many of a checkpoint's environments each process gets.

    Raises:
        ConfigurationError: If processes cannot share them equally.
    """
    total = total_of(saved)
    if total % world_size:
        fitting = [size for size in range(1, total + 1) if total % size == 0]
        below = max((size for size in fitting if size < world_size), default=None)
        above = min((size for size in fitting if size > world_size), default=None)
        nearest = " or ".join(str(size) for size in (below, above) if size is not None)
        raise ConfigurationError(
            f"The run has {total} environments, which {world_size} processes cannot share equally. "
            f"Go on with {nearest}."
        )
    return total // world_size


def check_total(saved: Mapping[str, Any], world_size: int, given: Mapping[str, int]) -> None:
    """Refuse numbers of environments that contradict a checkpoint's total.

    Args:
        saved: The checkpoint.
        world_size: Number of processes.
        given: Environments per process by where they were given. Those of the run's earlier
            processes are also right: a command that is repeated on others has them.

    Raises:
        ConfigurationError: Naming both totals.
    """
    total, each = total_of(saved), share_of_total(saved, world_size)
    begun_with = total // begun_on(saved)
    for name, num_envs in given.items():
        if num_envs not in (each, saved["num_envs"], begun_with):
            raise ConfigurationError(
                f"{name} is {num_envs}, which makes {num_envs * world_size} environments on "
                f"{_processes(world_size)}, but the run has {total} in all, which a resume keeps. "
                f"Leave it out, or give {each}."
            )


# ---- The processes' parts ------------------------------------------------------------------------


def share_of(saved: Mapping[str, Any], rank: int, world_size: int) -> Share:
    """Return the environments of a process among those of a checkpoint."""
    num_envs = share_of_total(saved, world_size)
    return Share(rank * num_envs, num_envs, saved["num_envs"])


def parts_of(saved: Mapping[str, Any], world_size: int) -> list[dict[str, Any]]:
    """Return what each of another number of processes needs of a checkpoint's parts.

    It is the list of all ``ranks``, of which those with none of the process's environments have no
    tensors.
    """
    ranks = saved["ranks"]
    bare = [without_tensors({**part, "generators": None}) for part in ranks]
    needed = [share_of(saved, rank, world_size).ranks for rank in range(world_size)]
    return [
        {"ranks": [ranks[i] if i in own else bare[i] for i in range(len(ranks))]} for own in needed
    ]


OF_ANY_RUN = (
    *("env.seed", "env.scene.num_envs", "env.scene.skin", "env.num_workers", "env.graph"),
    *("env.sim.backend", "env.sim.num_threads", "env.sim.graph"),
    "env.sim.compile",  # of files of before env.graph=compiled
    *("env.sim.deterministic", "env.houses.cache_dir"),
)
"""Settings of the machine and the run, which leave the task as it is."""
MOST_TOLD = 6
"""Settings that a sentence names; the rest are counted."""

Changes = dict[str, tuple[Any, Any]]
"""Differing settings by dotted path: one value and the other."""


def differences(then: Any, now: Any, path: str) -> Changes:
    """Return the values that differ between two trees of settings, by dotted path."""
    if not isinstance(then, Mapping) or not isinstance(now, Mapping):
        return {} if then == now else {path: (then, now)}
    changes: Changes = {}
    for name in dict.fromkeys((*then, *now)):
        changes |= differences(then.get(name), now.get(name), f"{path}.{name}")
    return changes


def task_changes(env: Mapping[str, Any], task: Task) -> Changes:
    """Return the settings that make another task of an environment: its value and the task's.

    Args:
        env: Its settings, such as the content of ``params/env.yaml``.
        task: The task that it was made from.
    """
    found = differences(env, to_dict(load_env_cfg(task), "env"), "env")
    return {path: values for path, values in found.items() if path not in OF_ANY_RUN}


def listing(changes: Changes) -> str:
    """Return changes in words: ``env.rewards.alive.weight=4.0 (2.0)``, the task's in brackets."""
    texts = [
        f"{path}={_short(own)} ({_short(usual)})"
        for path, (own, usual) in list(changes.items())[:MOST_TOLD]
    ]
    if len(changes) > MOST_TOLD:
        texts.append(f"and {len(changes) - MOST_TOLD} more")
    return ", ".join(texts)


def _short(value: Any) -> str:
    """Return a setting as text; a whole term is shortened to "a term"."""
    return "null" if value is None else "a term" if isinstance(value, Mapping) else str(value)
