"""Groups of runs that differ only in their seed, by keys of their manifests and configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.config import load_yaml, paths
from envlab.errors import ConfigurationError, did_you_mean
from envlab.run.compare.results import RunResult
from envlab.run.records import dotted_names, value_at

GROUP_KEYS = ("library", "algorithm", "ml_framework", "world.size", "global_num_envs")
"""Runs that agree in these keys of the manifest form a group; an absent key counts as None."""
_ALWAYS_SHOWN = ("library", "world.size")


@dataclass(kw_only=True)
class Group:
    """Runs that differ only in their seed, by the manifest keys."""

    label: str
    """The words that distinguish it from the other groups."""
    keys: dict[str, Any]
    """The manifest keys it was formed by, and their values."""
    runs: list[RunResult]
    """The runs, oldest first."""


def group_runs(runs: Sequence[RunResult], by: Sequence[str] | None = None) -> list[Group]:
    """Group runs by keys of their manifests, or of their ``params/*.yaml``.

    Args:
        runs: The runs, of one task.
        by: Keys, dotted such as ``world.size`` or ``agent.algorithm.learning_rate``. None:
            :data:`GROUP_KEYS`.

    Raises:
        ConfigurationError: If no run has a key.
    """
    keys = tuple(by or GROUP_KEYS)
    known = {name for run in runs for name in [*dotted_names(run.manifest), *run.manifest]}
    facts = [run.manifest for run in runs]
    if not known.issuperset(by or ()):  # these files take longer to read than all the rest
        facts = [run.manifest | params_of(run.directory) for run in runs]
        _check_keys(keys, known, facts)
    members: dict[str, list[RunResult]] = {}
    for run, values_of in zip(runs, facts, strict=True):
        values = [value_at(values_of, key) for key in keys]
        members.setdefault(json.dumps(values, sort_keys=True), []).append(run)
    groups = [dict(zip(keys, json.loads(values), strict=True)) for values in members]
    shown = keys if by else [key for key in keys if key in _ALWAYS_SHOWN or _differs(key, groups)]
    labelled = [
        Group(label=_label(group, shown, is_default=not by), keys=group, runs=members_of)
        for group, members_of in zip(groups, members.values(), strict=True)
    ]
    return sorted(labelled, key=lambda group: [_order(value) for value in group.keys.values()])


def params_of(directory: Path) -> dict[str, Any]:
    """Return a run's ``params/*.yaml``, as ``{"env": ..., "agent": ...}``."""
    return {path.stem: load_yaml(path) for path in sorted(directory.glob("params/*.yaml"))}


def _check_keys(
    keys: Sequence[str], of_manifests: set[str], facts: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse a key that no run has, suggesting the nearest ones, or those with the same ending."""
    configured = {
        name
        for values in facts
        for root in ("env", "agent")
        for name in paths(values.get(root, {}), root)
    }
    for key in keys:
        if key in of_manifests | configured:
            continue
        same = sorted(name for name in configured if name.endswith(f".{key}"))[:3]
        hint = f" Did you mean {', '.join(same)}?" if same else ""
        raise ConfigurationError(
            f"--by names {key!r}, which no run has."
            f"{hint or did_you_mean(key, of_manifests | configured)} Manifests have "
            f"{', '.join(sorted(of_manifests))}; params/*.yaml have env.* and agent.*."
        )


def _differs(key: str, groups: Sequence[Mapping[str, Any]]) -> bool:
    return any(group[key] != groups[0][key] for group in groups)


def _label(values: Mapping[str, Any], shown: Sequence[str], *, is_default: bool) -> str:
    """Return words for the default keys (``skrl PPO, 2 processes``), else ``key=value``."""
    if not is_default:
        return ", ".join(f"{key}={_word(values[key])}" for key in shown)
    units = {"world.size": "process", "global_num_envs": "environment"}
    known = [key for key in shown if values[key] is not None]
    names = " ".join(_word(values[key]) for key in known if key not in units)
    return ", ".join([names, *(_counted(values[key], units[key]) for key in known if key in units)])


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _counted(count: int, unit: str) -> str:
    plural = f"{unit}es" if unit.endswith("s") else f"{unit}s"
    return f"{count} {unit if count == 1 else plural}"


def _order(value: Any) -> tuple[float, str]:
    return (value if isinstance(value, (int, float)) else 0.0, json.dumps(value))
