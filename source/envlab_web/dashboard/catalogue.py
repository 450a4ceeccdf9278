"""The runs below a folder: found, and read again only if a file of theirs has changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlab.errors import RunDirectoryError
from envlab.run.manifest import MANIFEST_VERSION, is_copy, read_manifest
from envlab.run.records import Standing, read_standing
from envlab.tools.runs import FILES, Row, row
from envlab_web.dashboard.ranks import RankRow, read_ranks

FRESH_S = 1.0
"""How long a listing of the folder is reused."""
_READ = frozenset({".json", ".jsonl", ".yaml"})
_WITHOUT_RUNS = frozenset({"checkpoints", "params", "videos", "exported", "__pycache__"})


class UnknownRunError(RunDirectoryError):
    """No run has this name."""


@dataclass(kw_only=True)
class Listed:
    """A run in the dashboard."""

    name: str
    """Its folder relative to the root, with slashes; pages refer to it by this name."""
    directory: Path
    root: Path
    """The folder whose runs are shown."""
    signature: tuple[Any, ...]
    """Times of its files' last changes, and their sizes."""
    writes: dict[str, float]
    """Time of each file's last write, in seconds."""
    manifest: dict[str, Any] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    problem: str = ""
    """Reason if it cannot be shown completely."""

    @property
    def row(self) -> Row:
        """Its current row of the table."""
        if self.manifest:
            return row(self.directory, self.manifest, self.standing, self.writes)
        return row(self.directory, {"status": "unreadable"}, self.standing, self.writes)

    def ranks(self) -> list[RankRow]:
        """Return the state of its ranks."""
        written_at = max(self.writes.get(name, 0.0) for name in ("run.json", "heartbeats.json"))
        return read_ranks(self.directory, self.manifest, silent_s=time.time() - written_at)

    def trouble(self) -> str:
        """Return a sentence on the rank of a running run that is in trouble."""
        if self.manifest.get("status") != "running" or "heartbeats.json" not in self.writes:
            return ""
        return " ".join(rank.says for rank in self.ranks() if rank.state == "lost")


class Catalogue:
    """All runs below a folder; safe to use from any thread."""

    def __init__(self, root: Path) -> None:
        """Prepare without reading the folder."""
        self.root = root.resolve()
        self._runs: dict[str, Listed] = {}
        self._looked_at = -FRESH_S
        self._lock = threading.Lock()

    def runs(self) -> dict[str, Listed]:
        """Return the runs by their names, the newest first."""
        with self._lock:
            if time.monotonic() - self._looked_at >= FRESH_S:
                found = {name: self._look(name, path) for name, path in self._directories()}
                newest = sorted(found.items(), key=lambda item: _age_key(item[1]), reverse=True)
                self._runs = dict(newest)
                self._looked_at = time.monotonic()
            return self._runs

    def run(self, name: str) -> Listed:
        """Return a run.

        Raises:
            UnknownRunError: If there is none of this name.
        """
        run = self.runs().get(name)
        if run is None:
            raise UnknownRunError(
                f"There is no run {name!r} below {self.root}: it was moved or removed, or never "
                "existed. The list shows the runs that exist."
            )
        if not (run.directory / "run.json").exists():
            raise UnknownRunError(f"The run {name!r} was removed while it was shown.")
        self._refuse_links(run.directory)
        return run

    def _refuse_links(self, directory: Path) -> None:
        """Refuse a run with a link to be read that leads out of the folder.

        Raises:
            RunDirectoryError: Naming the link.
        """
        for folder in (directory, directory / "params"):
            for entry in os.scandir(folder) if folder.is_dir() else ():
                is_read = entry.name == "params" or Path(entry.name).suffix in _READ
                if is_read and entry.is_symlink() and not is_inside(Path(entry.path), self.root):
                    raise RunDirectoryError(
                        f"{entry.path} is a link that leads out of {self.root}, and is not "
                        "followed. Put a copy in its place."
                    )

    def _directories(self) -> Iterator[tuple[str, Path]]:
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in _WITHOUT_RUNS]
            if "run.json" in files and not is_copy(Path(folder)):
                yield os.path.relpath(folder, self.root).replace(os.sep, "/"), Path(folder)

    def _look(self, name: str, directory: Path) -> Listed:
        stats = {file: stat for file in FILES if (stat := stat_of(directory / file)) is not None}
        signature = tuple((file, stat.st_mtime_ns, stat.st_size) for file, stat in stats.items())
        known = self._runs.get(name)
        if known is not None and known.signature == signature:
            return known
        writes = {file: stat.st_mtime for file, stat in stats.items()}
        run = Listed(
            name=name, directory=directory, root=self.root, signature=signature, writes=writes
        )
        try:
            self._refuse_links(directory)
            run.manifest = read_manifest(directory)
        except (OSError, RunDirectoryError) as error:  # also a folder without permission to list
            run.problem = str(error)
            return run
        version = run.manifest.get("version") or MANIFEST_VERSION
        if version > MANIFEST_VERSION:
            run.problem = (
                f"A newer envlab wrote this run (its run.json has version {version}, this envlab "
                f"knows {MANIFEST_VERSION}): what is new in it is not shown."
            )
        if "metrics.jsonl" in stats:
            run.standing = read_standing(directory)
        return run


def stat_of(path: Path) -> os.stat_result | None:
    """Return the facts of a file; None if it was removed, or is a broken link."""
    try:
        return path.stat()
    except OSError:
        return None


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path, its links followed, is at or below a folder."""
    # Unlike Path.resolve, realpath raises nothing for links that lead in a circle.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _age_key(run: Listed) -> tuple[str, str]:
    return str(run.manifest.get("created_at") or ""), run.name
