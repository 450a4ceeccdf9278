"""The records of a run: JSON lines, such as those of ``metrics.jsonl``, one per iteration.

A killed writer leaves a last line that is cut off, which every reader ignores. Any other line that
is not a record is damage, and raises an error with its number.

``envlab play`` saves evaluations beside the checkpoint that was played:
``checkpoints/evaluation_300.json`` is of the policy of iteration 300, in the unchanged task.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.distributed.disk import whole_file
from envlab.errors import RunDirectoryError
from envlab.foreign import check_file, parse_json, read_text
from envlab.run.manifest import finite

METRICS = "metrics.jsonl"
_COUNTS = ("iteration", "frames", "wall_s")
"""Numbers that every record has."""
MOST_BYTES = 2**30
"""Limit of one read: a million iterations."""
_TAIL_BYTES = 2**16
"""Enough for tens of records, one of which has a return if episodes end at all."""


class Records:
    """A file of records, which can be followed while it grows; each record is read once."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; the file need not exist yet."""
        self.path = path
        self.end = 0
        """Position in bytes after the last record that was read."""
        self.is_cut = False
        """Whether a last line that is cut off follows at ``end``."""
        self._count = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the records that were added since the last read.

        Raises:
            RunDirectoryError: If the file cannot be read, or a line other than the last is not a
                record.
        """
        problem: ValueError | None = None
        for line in self.lines():
            if problem is not None:
                raise RunDirectoryError(
                    f"Line {self._count + 1} of {self.path} is not a record of an iteration "
                    f"({problem}). Repair or remove the line, or leave the run out."
                ) from problem
            try:
                record = _record(line)
            except ValueError as error:
                problem = error
                if not line.endswith(b"\n"):  # its writer may add the rest at any moment
                    break
            else:
                self.end += len(line)
                self._count += 1
                yield record
        self.is_cut = problem is not None

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that were added, of which the last may be cut off."""
        try:
            check_file(self.path, self.end + MOST_BYTES)
            with self.path.open("rb") as file:
                file.seek(self.end)
                yield from file
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path} cannot be read ({error}). Leave the run out."
            ) from error


def _record(line: bytes) -> dict[str, Any]:
    """Return the record in a line.

    Raises:
        ValueError: If it holds none, or is cut off.
    """
    if not line.endswith(b"\n"):
        raise ValueError("it is cut off")
    record: dict[str, Any] = parse_json(line)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")
    for name in _COUNTS:
        if not _is_number(record.get(name)):
            raise ValueError(f"it has no number {name!r}")
    return record


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line; numbers that JSON does not have become null."""
    return json.dumps(finite(dict(record)), allow_nan=False).encode() + b"\n"


def cut_metrics(directory: Path, iteration: int) -> None:
    """Drop the records after an iteration from ``metrics.jsonl``, and all from a damaged one on."""
    path = directory / METRICS
    if not path.is_file():
        return
    end = 0
    with path.open("rb") as file:
        for line in file:
            try:
                if _record(line)["iteration"] > iteration:
                    break
            except ValueError:
                break
            end += len(line)
    os.truncate(path, end)  # which needs no room on a full disk


def value_at(values: Any, key: str) -> Any:
    """Return the value at a dotted key, or None; inner keys may also contain dots."""
    if not isinstance(values, Mapping):
        return None
    outer, _, inner = key.partition(".")
    return values[key] if key in values else value_at(values.get(outer), inner) if inner else None


def number_at(record: Any, key: str) -> Any:
    """Return the number at a dotted key; None if it is absent, null, or no finite number."""
    value = value_at(record, key)
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # and no bool


def dotted_names(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a mapping, those of an inner one as ``outer.inner``."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The progress of a run; None where it is unknown."""

    iteration: int | None = None
    """Iterations done."""
    frames: int | None = None
    """Environment steps of all processes."""
    wall_s: float | None = None
    """Seconds since the run's start."""
    mean_return: float | None = None
    """The last mean return of the episodes that ended in an iteration."""
    fps: float | None = None
    """Environment steps of all processes per second in the last iteration."""


def read_standing(directory: Path) -> Standing:
    """Return the progress of the run in a directory, in a moment however long the run is.

    Lines that are not records are skipped, wherever they are.
    """
    records = _newest_first(directory / METRICS)
    newest = next(records, None)
    if newest is None:
        return Standing()
    returns = (number_at(record, "mean_return") for record in itertools.chain([newest], records))
    return Standing(
        iteration=newest["iteration"],
        frames=newest["frames"],
        wall_s=newest["wall_s"],
        mean_return=next((value for value in returns if value is not None), None),
        fps=number_at(newest, "fps"),
    )


def _newest_first(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records at a file's end, newest first."""
    try:
        check_file(path, MOST_BYTES)
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return
    for line in reversed(lines):
        try:
            record = _record(line)
        except ValueError:  # the first of the tail is seldom whole
            continue
        yield record


NAMES = {
    **{"success_rate": "success rate", "falls_per_hour": "falls per hour"},
    **{"lin_vel_error": "error of velocity", "ang_vel_error": "error of turning"},
    **{"mpkpe": "MPKPE in the world", "r_mpkpe": "MPKPE relative to the anchor"},
    **{"joint_vel_error": "error of joint velocities"},
    **{"ee_pos_error": "error of hands and feet", "ee_ori_error": "error of their angles"},
}
"""What people read, by name."""
TRACKED = tuple(name for name in NAMES if "error" in name or "mpkpe" in name)
"""Distances from what is commanded."""


def keep_evaluation(folder: Path, values: Mapping[str, Any]) -> Path | None:
    """Save an evaluation with its checkpoint, unless the run has one over more episodes.

    Args:
        folder: The run's ``checkpoints/``.
        values: With ``num_episodes``, and the policy's ``iteration``, ``frames`` and ``wall_s``.

    Returns:
        The file; None if it was left as it is.
    """
    path = folder / f"evaluation_{values['iteration']}.json"
    there = read_evaluations(folder).get(values["iteration"], {}).get("num_episodes", 0)
    if there > values["num_episodes"]:
        return None
    with whole_file(path) as stream:
        stream.write(json.dumps(dict(values), indent=1).encode() + b"\n")
    return path


def read_evaluations(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the evaluations in a run's ``checkpoints/`` by iteration, without damaged ones."""
    found = {}
    for path in folder.glob("evaluation_*.json"):
        try:
            values = parse_json(read_text(path))
        except (OSError, ValueError):
            continue
        counts = {"num_episodes", "iteration", "frames", "wall_s"}
        if all(number_at(values, count) is not None for count in counts):
            found[int(values["iteration"])] = values
    return dict(sorted(found.items()))
