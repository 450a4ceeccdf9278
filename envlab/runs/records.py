"""The last records of ``metrics.jsonl``: how far a run is, read in a moment however long it is."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.foreign import check_file, parse_json

MOST_BYTES = 2**30
"""Of ``metrics.jsonl``: a million iterations."""
_TAIL_BYTES = 2**16
"""What is read of the end: tens of records, so that one has a return if episodes end at all."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a run is; null where no record tells."""

    iteration: int | None = None
    """Iterations done."""
    frames: int | None = None
    """Environment steps of all processes."""
    wall_s: float | None = None
    """Seconds since the run's start."""
    mean_return: float | None = None
    """The last mean return of the episodes that ended in an iteration."""
    fps: float | None = None
    """Environment steps of all processes per second, of the last iteration."""


def read_standing(directory: Path) -> Standing:
    """Return how far the run in a directory is; a line that is not whole does not count."""
    records = _last_records(directory / "metrics.jsonl")
    newest = next(records, None)
    if newest is None:
        return Standing()
    returns = (_number(record, "mean_return") for record in itertools.chain([newest], records))
    return Standing(
        iteration=_number(newest, "iteration"),
        frames=_number(newest, "frames"),
        wall_s=_number(newest, "wall_s"),
        mean_return=next((value for value in returns if value is not None), None),
        fps=_number(newest, "fps"),
    )


def _number(record: dict[str, Any], name: str) -> Any:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _last_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records at a file's end, the newest first."""
    try:
        check_file(path, MOST_BYTES)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in reversed(lines):
        try:
            record = parse_json(line)
        except ValueError:  # the first of the tail, or one that is being written
            continue
        if isinstance(record, dict):
            yield record
