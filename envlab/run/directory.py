"""The run directory: one per run, chosen by rank 0, whose manifest always has the status.

``logs/<library>/<experiment>/<timestamp>[_<run_name>]/`` holds ``run.json`` (the manifest),
``params/``, ``metrics.jsonl``, event files, ``checkpoints/``, ``exported/`` and ``videos/``. Rank 0
writes all of it, under a lock that it holds for as long as its process lives: two launches with the
same ``--run_id`` would write their records into one ``metrics.jsonl``, and remove each other's
checkpoints.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from envlab.config import write_yaml
from envlab.distributed.context import DistributedContext
from envlab.distributed.disk import RecordFile, surviving_disk_errors
from envlab.distributed.interface import process_space
from envlab.distributed.interrupt import Interrupted, Preempted
from envlab.distributed.progress import LostPeerError, is_broken_collective
from envlab.errors import RunDirectoryError
from envlab.run.event_file import cut_events
from envlab.run.manifest import LOG_ROOT, new_manifest, now, reopened_manifest, write_json
from envlab.run.records import METRICS, cut_metrics, line_of

logger = logging.getLogger(__name__)

EVENTS_TAG = "envlab/wall_s"
"""The tag that event files hold first for every iteration."""


class Run:
    """A run directory and its manifest; a context manager that writes the final status on exit.

    The status is ``running``, then ``finished``, ``failed`` (with the error), ``interrupted``, or
    ``preempted`` (ended by a signal after its state was saved).
    """

    def __init__(
        self, directory: Path, context: DistributedContext, manifest: dict[str, Any]
    ) -> None:
        self.directory = directory
        self._context = context
        self._manifest = manifest
        self._metrics = RecordFile(directory / METRICS, "metrics")
        self._lock: FileLock | None = None
        self.interrupt_signal: Callable[[], int | None] = lambda: None
        """Returns the signal that ended this process, if any; an error may only follow from it."""

    @classmethod
    def create(
        cls,
        context: DistributedContext,
        *,
        library: str,
        experiment: str,
        run_name: str = "",
        facts: dict[str, Any],
        configs: dict[str, Any],
        root: str = LOG_ROOT,
        directory: Path | None = None,
    ) -> Run:
        """Make a new directory on rank 0 and share its path; every rank must call this.

        Args:
            context: The process's context.
            library: RL library, the first folder.
            experiment: Experiment name, the second folder.
            run_name: Appended to the timestamp.
            facts: Contents of the manifest in addition to versions, command line and world.
            configs: Written to ``params/<name>.yaml``.
            root: Folder of all runs.
            directory: The directory to make instead of one in a folder of the experiment.

        Raises:
            RunDirectoryError: On every rank, if the directory cannot be made.
        """
        parent = Path(root).absolute() / library / experiment
        wanted = directory

        def make() -> Path:
            try:
                directory = make_directory(parent, run_name) if wanted is None else wanted
                for folder in ("params", "checkpoints"):
                    (directory / folder).mkdir(parents=True)
                for name, cfg in configs.items():
                    write_yaml(directory / "params" / f"{name}.yaml", cfg)
            except OSError as error:
                raise RunDirectoryError(
                    f"The run directory under {parent} cannot be made ({error.strerror}: "
                    f"{error.filename}). Run from a folder that you may write to, and where there "
                    "is room."
                ) from error
            return directory

        run = cls(context.once(make), context, new_manifest(context, library, facts))
        run._lock = hold_lock(run.directory) if context.is_main else None
        run.update(status="running")
        return run

    @classmethod
    def reopen(
        cls,
        context: DistributedContext,
        directory: Path,
        *,
        library: str,
        facts: dict[str, Any],
        iteration: int,
        frames: int,
    ) -> Run:
        """Continue in a run's directory; every rank must call this.

        The restart is recorded in the manifest. Metrics and curves of iterations that will be
        repeated are removed.

        Args:
            context: The process's context.
            directory: The run directory, which rank 0 can see.
            library: RL library.
            facts: See :meth:`create`.
            iteration: The iteration from which the run continues; 0 for its beginning.
            frames: The environment steps of all ranks until then.

        Raises:
            RunDirectoryError: On every rank, if the directory cannot be written, another launch
                writes it, or a link in it leads elsewhere.
        """
        run = cls(directory, context, new_manifest(context, library, facts))

        def go_on() -> None:
            refuse_links(directory)
            try:
                run._lock = hold_lock(directory)
                run._manifest = reopened_manifest(directory, run._manifest, iteration)
                cut_metrics(directory, iteration)
                cut_events(directory, EVENTS_TAG, frames)
                write_json(directory / "run.json", run._manifest)
            except OSError as error:
                raise RunDirectoryError(
                    f"The run {directory} cannot be continued ({error.strerror}: {error.filename})."
                    " Make its folder writable, and see that there is room."
                ) from error

        context.once(go_on)
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._finish(error)
        except Interrupted:  # raised once per process, so the second attempt is not cut short
            self._finish(error)
        finally:
            self._metrics.close()
            if self._lock is not None:
                self._lock.release()

    def _finish(self, error: BaseException | None) -> None:
        number = self.interrupt_signal()
        if number is not None and error is not None and is_broken_collective(error):
            error = Interrupted(number)  # a peer that received it first has left
        if error is None:
            self.update(status="finished")
        elif isinstance(error, Preempted) and error.signal_number != signal.SIGINT:
            self.update(status="preempted", error=str(error))
        elif isinstance(error, LostPeerError):
            self.update(status="failed", error=str(error))
        elif isinstance(error, (Interrupted, KeyboardInterrupt)):
            self.update(status="interrupted", error=str(error) or type(error).__name__)
        else:
            self.update(status="failed", error=f"{type(error).__name__}: {error}")

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.directory / "checkpoints"

    def update(self, **values: Any) -> None:
        """Change the manifest's values and write it, on rank 0."""
        if not self._context.is_main:
            return
        self._manifest |= values | {"updated_at": now()}
        self._write(self._manifest)

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Append a line to ``metrics.jsonl``, on rank 0.

        Raises:
            RunDirectoryError: If the run directory no longer exists.
        """
        if self._context.is_main:
            self._metrics.append(line_of(record))

    @property
    def services(self) -> dict[str, str]:
        """The logging services' ids of this run, or of the one that it continues, by service."""
        return dict(self._manifest.get("services", {}))

    def _write(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, unless the directory was deleted, which the next write reports."""
        path = self.directory / "run.json"
        so = f"It still has an earlier state, and not that the run is {manifest['status']}."
        with surviving_disk_errors(path, f"The manifest {path} could not be written", so):
            try:
                write_json(path, manifest)
            except FileNotFoundError:
                if self.directory.is_dir():
                    raise


def refuse_links(directory: Path, harm: str = "which a run would overwrite") -> None:
    """Refuse a run directory with a link that leads out of it, before it is written or sent.

    A run made by somebody else could make us overwrite, or publish, any of our files. The directory
    itself may be a link.

    Args:
        directory: The run directory.
        harm: What would happen to the file that a link leads to.

    Raises:
        RunDirectoryError: Naming the link.
    """
    inside = Path(os.path.realpath(directory))
    for folder, folders, names in os.walk(directory):
        for path in (Path(folder, name) for name in (*folders, *names)):
            # Unlike Path.resolve, realpath raises nothing for links that lead in a circle.
            target = Path(os.path.realpath(path))
            if path.is_symlink() and not target.is_relative_to(inside):
                raise RunDirectoryError(
                    f"{path} is a link that leads out of the run directory, to {target}, {harm}. "
                    "Remove the link, or put a copy in its place."
                )


def make_directory(parent: Path, run_name: str) -> Path:
    """Make a new folder; a second run in the same second gets a number."""
    name = datetime.now().strftime("%Y-%m-%d_%H-%M-%S") + (f"_{run_name}" if run_name else "")
    for attempt in range(1000):
        directory = parent / (name if attempt == 0 else f"{name}_{attempt}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            if directory.exists():
                continue
            raise
        return directory
    raise FileExistsError(0, "1000 runs in one second", str(parent / name))


LOCK = "lock"
PATIENCE_S = 15.0
"""How long a holder on another machine is watched; its ``heartbeats.json`` changes every 5 s."""
POLL_S = 0.2


def hold_lock(directory: Path) -> FileLock | None:
    """Hold a run directory's lock until the returned lock is released or this process ends.

    It is flock(2), which children do not keep (filelock 4 closes it in forked ones), and which
    Linux passes on to an NFS server. A server may keep it for a machine that was lost, so a holder
    on another machine must also give a sign of life.

    Args:
        directory: The run directory.

    Returns:
        The lock; None if there can be none, in which case the run continues without one.

    Raises:
        RunDirectoryError: If another process holds it, and lives.
    """
    path = directory / LOCK
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        _check_not_alive(directory, path.read_text(errors="replace").splitlines())
        return None
    except OSError:  # no locks here, or read-only, gone or full, as the next write will report
        return None
    with surviving_disk_errors(path):
        path.write_text(f"{socket.gethostname()}\n{os.getpid()}\n{process_space()}\n")
    return lock


def _check_not_alive(directory: Path, holder: list[str]) -> None:
    """Raise if the holder lives. One on this machine does, or the lock would be free.

    Args:
        directory: The run directory.
        holder: Host, process id and process space of the holder, as far as it could write them.
    """
    known = len(holder) == 3
    name = f"host {holder[0]}, pid {holder[1]}" if known else "its process is not known"
    if (known and holder[2] == process_space()) or _is_beating(directory):
        raise RunDirectoryError(
            f"The run {directory} is being written by another launch ({name}). Wait for it or end "
            "it first, or give this one another --run_id."
        )
    logger.warning(
        "The lock %s is held (%s), but its holder gave no sign of life for %.0f s: continuing.",
        directory / LOCK,
        name,
        PATIENCE_S,
    )


def _is_beating(directory: Path) -> bool:
    before = _heartbeats(directory)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if _heartbeats(directory) != before:
            return True
        time.sleep(POLL_S)
    return False


def _heartbeats(directory: Path) -> bytes | None:
    try:
        return (directory / "heartbeats.json").read_bytes()
    except OSError:
        return None
