"""A run as seen from Python: its directory, its progress, and its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlab.errors import RunDirectoryError
from envlab.run.manifest import LOG_ROOT, read_manifest, read_manifests
from envlab.run.records import Records, Standing, read_standing


@dataclass(frozen=True, repr=False)
class TrainingRun:
    """A run directory; :func:`runs` finds them, and :func:`envlab.train` returns one.

    Everything is read on access, so a run can be watched while another process trains.
    """

    directory: Path
    manifest: Mapping[str, Any] = field(compare=False)
    """Contents of ``run.json`` when it was read: task, library, seed, versions, command, ..."""

    @classmethod
    def open(cls, directory: str | Path) -> TrainingRun:
        """Return the run in a directory.

        Raises:
            RunDirectoryError: If there is none, or its manifest is damaged.
        """
        path = Path(directory)
        return cls(path, read_manifest(path))

    def __repr__(self) -> str:
        at = self.standing
        return (
            f"<TrainingRun {self.directory}: {self.task} by {self.library}, {self.status} at "
            f"iteration {at.iteration}, mean return {at.mean_return}>"
        )

    @property
    def task(self) -> str:
        """Id of the task."""
        return str(self.manifest.get("task"))

    @property
    def library(self) -> str:
        """Library that trained it: ``rsl_rl``, ``skrl``, ..."""
        return str(self.manifest.get("library"))

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``interrupted``, ``preempted`` or ``failed``, as of now."""
        return str(read_manifest(self.directory).get("status"))

    @property
    def standing(self) -> Standing:
        """Its progress: iteration, frames, seconds, and the latest return."""
        return read_standing(self.directory)

    @property
    def mean_return(self) -> float | None:
        """Mean undiscounted return of the last 100 or more episodes; None before any has ended."""
        return self.standing.mean_return

    def metrics(self) -> list[dict[str, Any]]:
        """Return a record of each iteration, as in ``metrics.jsonl``.

        ``pandas.DataFrame(run.metrics())`` is a table of them. For the names see
        :class:`envlab.learner.IterationRecord`.

        Raises:
            RunDirectoryError: If the file is damaged.
        """
        return list(Records(self.directory / "metrics.jsonl").read())

    def checkpoint(self, selector: str = "latest") -> Path:
        """Return a checkpoint's file.

        Args:
            selector: ``latest``, ``best``, or a file's name.

        Raises:
            CheckpointError: If there is none, or it is damaged.
        """
        from envlab.run.checkpoints import Checkpoints  # which loads torch

        return Checkpoints(self.directory / "checkpoints").find(selector)[0]


def runs(
    folder: str | Path = LOG_ROOT, *, task: str = "", library: str | None = None
) -> list[TrainingRun]:
    """Return the runs in a folder and its subfolders, the oldest first.

    Args:
        folder: Where to look; training makes ``logs`` in the folder where it is started.
        task: Only of tasks whose id contains this.
        library: Only of this library.

    Raises:
        RunDirectoryError: If there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise RunDirectoryError(
            f"There is no folder {str(folder)!r}. Give one that contains runs; training makes "
            f"{LOG_ROOT!r} where it is started."
        )
    return [
        TrainingRun(directory, manifest)
        for directory, manifest in read_manifests(root, "**").items()
        if task.lower() in str(manifest.get("task")).lower()
        and library in (None, manifest.get("library"))
    ]
