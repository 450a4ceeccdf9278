"""Data of the page: a metric of runs, alone or over seeds, and their differing parameters."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envlab.config import leaves
from envlab.errors import ConfigurationError
from envlab.run.compare.groups import Group, group_runs, note_lines, params_of
from envlab.run.compare.results import RunResult, check_one_task, join_resumed, read_result
from envlab.run.compare.statistics import over_seeds
from envlab_web.dashboard.catalogue import Listed, stat_of

MOST_POINTS = 800
"""Points of a single run's line: more than a chart has pixels."""
GRID_POINTS = 200
"""Points of a line over seeds, whose interval takes 0.1 s at this number."""
X_NAMES = ("frames", "wall_s")
_MANIFEST_KEYS = ("library", "algorithm", "ml_framework", "seed", "world.size", "global_num_envs")
_NO_METRICS = frozenset({"iteration", "frames", "wall_s"})
_CACHED = 256


def curves(runs: Sequence[Listed], metric: str, x_name: str, *, is_grouped: bool) -> dict[str, Any]:
    """Return a metric's lines, for JSON; recomputed only after a file has changed.

    Args:
        runs: The shown runs, of one task.
        metric: A field of ``metrics.jsonl``, dotted as in ``losses.value``.
        x_name: One of :data:`X_NAMES`.
        is_grouped: Whether runs that differ only in their seed are one line with an interval.

    Raises:
        EnvlabError: If the runs are of several tasks, or a line of a file is broken.
    """
    # In one order, whatever the visitor's, so that intervals are computed once.
    keys = tuple(sorted((run.name, str(run.directory), run.signature) for run in runs))
    return _curves(keys, metric, x_name, is_grouped)


@functools.lru_cache(_CACHED)
def _curves(
    keys: Sequence[tuple[str, str, object]], metric: str, x_name: str, is_grouped: bool
) -> dict[str, Any]:
    read = [_read(directory, metric, signature) for _, directory, signature in keys]
    read.sort(key=lambda run: str(run.manifest.get("created_at") or ""))
    check_one_task(read)
    names = {directory: name for name, directory, _ in keys}
    joined = [run for run in join_resumed(read) if run.has_value.any()]
    notes = []
    if is_grouped and joined:
        groups = group_runs(joined)
        notes = note_lines(groups) if len(joined) > 1 else []
    else:
        groups = [Group(label=names[str(run.directory)], keys={}, runs=[run]) for run in joined]
    return {
        "metrics": sorted({name for run in read for name in run.names} - _NO_METRICS),
        "lines": [_line(group, x_name) for group in groups],
        "notes": notes,
    }


@functools.lru_cache(_CACHED)
def _read(directory: str, metric: str, signature: object) -> RunResult:
    return read_result(Path(directory), metric)


def _line(group: Group, x_name: str) -> dict[str, Any]:
    """Return label, x, middle, and the interval's bounds or null; empty without a shared range."""
    count = len(group.runs)
    curve = over_seeds(
        [getattr(run, x_name)[run.has_value] for run in group.runs],
        [run.values[run.has_value] for run in group.runs],
        num_points=GRID_POINTS,
    )
    x = middle = np.array([])
    low = high = None
    if curve is not None:
        keep = np.unique(np.linspace(0, len(curve.x) - 1, MOST_POINTS).round().astype(int))
        x, middle = curve.x[keep], curve.middle[keep]
        if curve.interval is not None:
            low, high = (bound[keep].tolist() for bound in curve.interval)
    label = group.label if count == 1 else f"{group.label} ({count} runs)"
    return {"label": label, "x": x.tolist(), "y": middle.tolist(), "low": low, "high": high}


Rows = list[tuple[str, list[str]]]
"""Parameters, with each run's value as text."""


def differences(runs: Sequence[Listed]) -> tuple[Rows, Rows]:
    """Return the parameters that are not the same in all runs.

    Returns:
        Those that all runs have; and those that some lack, hundreds for runs of two
        libraries.
    """
    facts = [_facts(run) for run in runs]
    keys = dict.fromkeys(key for fact in facts for key in fact)
    rows = [(key, [fact.get(key, "-") for fact in facts]) for key in keys]
    differing = [(key, values) for key, values in rows if len(set(values)) > 1]
    shared = [row for row in differing if all(row[0] in fact for fact in facts)]
    return shared, [row for row in differing if row not in shared]


def _facts(run: Listed) -> dict[str, str]:
    world = run.manifest.get("world") or {}
    told = {**run.manifest, "world.size": world.get("size")}
    facts = {key: _text(told[key]) for key in _MANIFEST_KEYS if told.get(key) is not None}
    return facts | _params(str(run.directory), _params_signature(run.directory))


def _params_signature(directory: Path) -> tuple[int, ...]:
    stats = [stat_of(path) for path in sorted(directory.glob("params/*.yaml"))]
    return tuple(0 if stat is None else stat.st_mtime_ns for stat in stats)


@functools.lru_cache(_CACHED)
def _params(directory: str, signature: object) -> dict[str, str]:
    """Return a run's configuration, flat; empty if it cannot be read."""
    try:
        params = params_of(Path(directory))
    except ConfigurationError:
        return {}
    return {
        name: _text(value) for root, tree in params.items() for name, value in leaves(tree, root)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
