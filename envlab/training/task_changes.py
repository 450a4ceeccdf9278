"""The differences between a run's environment and the task registered under its id.

A return means only as much as its task: a policy that earned it under other rewards, commands,
terminations or events has not been evaluated in the task as registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.config import to_dict
from envlab.registry import Task, load_env_cfg

OF_ANY_RUN = (
    *("env.seed", "env.scene.num_envs", "env.scene.skin", "env.num_workers", "env.graph"),
    *("env.sim.backend", "env.sim.num_threads", "env.sim.graph", "env.sim.compile"),
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
