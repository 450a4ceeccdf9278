"""Groups of runs that differ only in their seed, and the table of ``envlab compare``.

Groups are made by keys of manifests and configurations. The table has a line for each, and notes
for the reader.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from envlab.config import load_yaml, paths
from envlab.errors import ConfigurationError, did_you_mean
from envlab.run.compare.results import RunResult
from envlab.run.compare.statistics import bootstrap_interval, interquartile_mean, shared_range
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


FEW_RUNS = 5
"""With fewer, a percentile bootstrap promises too much: for normal values it covers the mean in
50 % of cases with 2 runs, 74 % with 3, 90 % with 5, 93 % with 10 (simulated, 4000 times each)."""


@dataclass(kw_only=True)
class Row:
    """A line of the table: a group in numbers."""

    label: str
    """The group."""
    num_runs: int
    """Number of runs, which differ in their seed."""
    task: str
    """Task id."""
    final: float
    """The metric at the end: interquartile mean over runs."""
    interval: tuple[float, float] | None
    """Its 95 % bootstrap interval; None for a single run."""
    highest: float
    """Each run's highest value of the metric: interquartile mean over runs."""
    frames: float
    """Global environment frames at the end, median over runs."""
    wall_s: float
    """Wall time in seconds, median over runs."""
    fps: float
    """Frames per second of wall time, median over runs."""
    status: dict[str, int]
    """Number of runs by status."""
    directories: list[str]
    """The run directories."""


def summarise(group: Group) -> Row:
    """Return a group's line of the table; every run must have a value of the metric."""
    final = np.array([run.values[run.has_value][-1] for run in group.runs])
    highest = np.array([np.nanmax(run.values) for run in group.runs])
    frames = np.array([run.frames[-1] for run in group.runs])
    wall_s = np.array([run.wall_s[-1] for run in group.runs])
    low, high = bootstrap_interval(final) if len(final) > 1 else (np.nan, np.nan)
    return Row(
        label=group.label,
        num_runs=len(final),
        task=group.runs[0].manifest["task"],
        final=float(interquartile_mean(final)),
        interval=(float(low), float(high)) if len(final) > 1 else None,
        highest=float(interquartile_mean(highest)),
        frames=float(np.median(frames)),
        wall_s=float(np.median(wall_s)),
        fps=float(np.median(frames / np.maximum(wall_s, 1e-9))),
        status=dict(Counter(run.manifest.get("status") or "unknown" for run in group.runs)),
        directories=[str(run.directory) for run in group.runs],
    )


def note_lines(groups: Sequence[Group]) -> list[str]:
    """Return the notes that a reader needs alongside the numbers."""
    notes = [note for group in groups for run in group.runs for note in _run_notes(run)]
    for group in groups:
        for name, words in (("frames", "frames"), ("wall_s", "wall time")):
            if shared_range([getattr(run, name)[run.has_value] for run in group.runs]) is None:
                notes.append(
                    f"{group.label}: the runs share no range of {words}; there is no curve."
                )
        seeds = Counter(run.manifest.get("seed") for run in group.runs)
        for seed in [seed for seed, count in seeds.items() if count > 1 and seed is not None]:
            notes.append(
                f"{group.label}: {seeds[seed]} runs have the seed {seed}; they count as if "
                "independent. Separate them with --by, or leave some out."
            )
    sizes = [len(group.runs) for group in groups]
    if 1 in sizes:
        notes.append("One run is a value without an interval.")
    if any(1 < size < FEW_RUNS for size in sizes):
        notes.append(f"Intervals of fewer than {FEW_RUNS} runs are too narrow for 95 %.")
    return notes


def _run_notes(run: RunResult) -> list[str]:
    notes = []
    if run.cut_file is not None:
        notes.append(f"The last line of {run.cut_file} is cut off; not counted.")
    if run.continues is not None:
        notes.append(f"{run.directory} continues {run.continues}; they count as one run.")
    elif run.manifest.get("resumed_from"):
        notes.append(
            f"{run.directory} continues a run that was not given; its curve starts at "
            f"{run.frames[0]:,.0f} frames."
        )
    return notes


def text_table(rows: Sequence[Row], notes: Sequence[str], metric: str) -> str:
    """Return aligned columns, numbers to the right, and the notes."""
    lines = [line.rstrip() for line in _table(rows, metric, "simple").splitlines()]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def markdown_table(rows: Sequence[Row], notes: Sequence[str], metric: str) -> str:
    """Return a table for a page, and the notes as a list below it."""
    lines = [_table(rows, metric, "pipe"), *([""] if notes else [])]
    return "\n".join([*lines, *(f"- {note}" for note in notes)])


def json_table(rows: Sequence[Row], notes: Sequence[str], metric: str) -> str:
    """Return everything at full precision, for scripts."""
    values = {"metric": metric, "groups": [asdict(row) for row in rows], "notes": list(notes)}
    return json.dumps(values, indent=2)


FORMATS: dict[str, Callable[[Sequence[Row], Sequence[str], str], str]] = {
    "text": text_table,
    "markdown": markdown_table,
    "json": json_table,
}


def _table(rows: Sequence[Row], metric: str, style: str) -> str:
    """Return the table in a style of tabulate, with statuses if some run has not finished."""
    columns: dict[str, list[str]] = {
        "group": [row.label for row in rows],
        "runs": [str(row.num_runs) for row in rows],
        "task": [row.task for row in rows],
        metric: [_number(row.final) + _bounds(row.interval) for row in rows],
        "highest": [_number(row.highest) for row in rows],
        "frames": [f"{row.frames:,.0f}" for row in rows],
        "wall time": [_duration(row.wall_s) for row in rows],
        "frames/s": [f"{row.fps:,.0f}" for row in rows],
    }
    if any(set(row.status) != {"finished"} for row in rows):
        columns["status"] = [
            ", ".join(f"{count} {status}" for status, count in row.status.items()) for row in rows
        ]
    aligns = ["left" if name in ("group", "task", "status") else "right" for name in columns]
    return tabulate(columns, "keys", style, disable_numparse=True, colalign=aligns)


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else " [{}, {}]".format(*map(_number, interval))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def _duration(seconds: float) -> str:
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 48 * 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:.3g} d"
