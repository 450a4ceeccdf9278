"""Sessions' records and checkpoints, as a trial reads them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from envlab.errors import ConfigurationError
from envlab.learner import IterationRecord
from envlab.run.checkpoints import Checkpoints
from envlab.run.records import METRICS, Records


@dataclass(kw_only=True)
class Running:
    """A session's process, as seen by the trial."""

    number: int
    process: Any
    directory: Path
    records: list[dict[str, Any]] = field(default_factory=list)
    frames: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    failure: str = ""

    def __post_init__(self) -> None:
        self._written = Records(self.directory / METRICS)

    def read_records(self) -> None:
        """Read the records that were added to the session's metrics."""
        self.records += self._written.read()


def mean_record(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a trial's record of an iteration from its sessions': sums of frames, else means.

    ``wall_s`` is the slowest session's.
    """
    combine: dict[str, Callable[[list[Any]], Any]] = {
        "iteration": max,
        "frames": sum,
        "wall_s": max,
        "fps": sum,
    }
    merged: dict[str, Any] = {}
    for name in (one.name for one in fields(IterationRecord)):
        values = [record[name] for record in records if record.get(name) is not None]
        if name in ("losses", "episode", "details"):
            keys = dict.fromkeys(key for value in values for key in value)
            merged[name] = {
                key: _mean([value[key] for value in values if value.get(key) is not None])
                for key in keys
            }
        else:
            merged[name] = combine.get(name, _mean)(values)
    return merged


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def newest_iteration(session: Path) -> int:
    """Return the iteration of a session's newest checkpoint.

    Raises:
        ConfigurationError: If there is none.
    """
    iterations = Checkpoints(session / "checkpoints").iterations()
    if not iterations:
        raise ConfigurationError(
            f"The trial cannot be resumed, because its session {session.name} has no checkpoint in "
            f"{session}. Start it again by the mode train."
        )
    return iterations[-1]
