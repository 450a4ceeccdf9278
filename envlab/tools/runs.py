"""``envlab runs``: run directories, with the progress and end of each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from envlab.arguments import ArgumentParser
from envlab.foreign import printable
from envlab.run.records import Standing
from envlab.run.training_run import runs

SILENT_S = 3600.0
"""A run that counts as running but has written nothing for this long has probably died."""
MUTE_S = 60.0
"""The same for a run that writes heartbeats, which come every 5 s."""
FILES = ("run.json", "metrics.jsonl", "heartbeats.json")
"""Files in a run directory that change while the run is alive."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A listed run."""

    directory: str
    task: str | None
    library: str | None
    status: str
    """Status in the manifest; ``silent`` for one that runs and writes nothing."""
    num_processes: int | None
    seed: int | None
    iteration: int | None
    total_iterations: int | None
    """The last iteration."""
    frames: int | None
    """Environment steps of all processes."""
    mean_return: float | None
    """The latest mean return."""
    fps: float | None
    """Environment steps per second, of the last iteration."""
    eta_s: float | None
    """Time until the end at the mean speed so far, in seconds, if it is running."""
    age_s: float
    """Time since its last write, in seconds."""


def main(arguments: Sequence[str]) -> int:
    """Print the runs, the newest last, and return 0.

    Raises:
        RunDirectoryError: If there is no such folder.
    """
    parser = ArgumentParser(prog="envlab runs", description="List run directories.")
    parser.add_argument(
        "folder", nargs="?", default="logs", metavar="FOLDER", help="where to look (default: logs)"
    )
    parser.add_argument("--task", metavar="WORD", help="only runs of tasks whose id has this")
    parser.add_argument("--library", metavar="NAME", help="only runs of this library")
    parser.add_argument("--json", action="store_true", help="for scripts: a list of objects")
    flags = parser.parse_args(list(arguments))
    found = runs(flags.folder, task=flags.task or "", library=flags.library)
    rows = [
        row(run.directory, run.manifest, run.standing, last_writes(run.directory)) for run in found
    ]
    if flags.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        print(printable(table(rows)))
    else:
        print(f"No run in {flags.folder} matches.")
    return 0


def row(
    directory: Path, manifest: Mapping[str, Any], at: Standing, writes: Mapping[str, float]
) -> Row:
    """Return the row of a run.

    Args:
        directory: The run directory.
        manifest: Contents of ``run.json``.
        at: Its progress.
        writes: See :func:`last_writes`.
    """
    age_s = time.time() - max(writes.values(), default=0.0)
    status = str(manifest.get("status", "unknown"))
    limit_s = MUTE_S if "heartbeats.json" in writes else SILENT_S
    total = manifest.get("total_iterations")
    eta_s = None
    if status == "running" and at.iteration and at.wall_s is not None and total is not None:
        eta_s = max(0, total - at.iteration) * at.wall_s / at.iteration
    return Row(
        directory=str(directory),
        task=manifest.get("task"),
        library=manifest.get("library"),
        status="silent" if status == "running" and age_s > limit_s else status,
        num_processes=(manifest.get("world") or {}).get("size"),
        seed=manifest.get("seed"),
        iteration=at.iteration,
        total_iterations=total,
        frames=at.frames,
        mean_return=at.mean_return,
        fps=at.fps,
        eta_s=eta_s,
        age_s=round(age_s, 1),
    )


def last_writes(directory: Path) -> dict[str, float]:
    """Return the time of the last write to each existing file of :data:`FILES`, in seconds."""
    files = (directory / name for name in FILES)
    return {file.name: file.stat().st_mtime for file in files if file.exists()}


def table(rows: Sequence[Row]) -> str:
    """Return runs as aligned columns under a heading."""
    headers = ("Run", "Task", "Library", "State", "Iterations", "Return", "Age")
    lines = [
        (
            *(row.directory, row.task, row.library, row.status, row.iteration, row.mean_return),
            _age(row.age_s),
        )
        for row in rows
    ]
    return tabulate(lines, headers=headers, floatfmt=".3f", missingval="-", disable_numparse=[6])


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
