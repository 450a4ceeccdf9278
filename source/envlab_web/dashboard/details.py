"""Contents of a run's page except the curves: facts, audit, checkpoints, videos, logs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envlab.errors import RunDirectoryError
from envlab.foreign import printable
from envlab.run.checkpoints import Checkpoints
from envlab.run.commands import play_words, resume_words, typed
from envlab.run.records import NAMES, TRACKED, number_at, read_evaluations
from envlab.training.continuation import OF_ANY_RUN
from envlab_web.dashboard.catalogue import Listed, is_inside, stat_of

TAIL_BYTES = 2**14
"""Size of a log's end that is shown: about 200 lines."""
VIDEO_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".webm": "video/webm"}
_LOG_TYPES = frozenset({".txt", ".log"})


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    """A checkpoint, and commands for it."""

    name: str
    iteration: int | None
    size_mb: float
    play: str
    """The command that plays it; empty if no library of this name is installed."""
    resume: str
    """The command that resumes from it; empty if there is none."""
    evaluation: str
    """What ``envlab play`` measured of it; empty if it was not played."""


def audit(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state (``ok``, ``lost``, ``unknown``) and the sentence of the last audit."""
    told, size = manifest.get("audit"), (manifest.get("world") or {}).get("size")
    if told:
        if told.get("is_passed"):
            return "ok", f"Passed at iteration {told.get('iteration')}: all ranks agree."
        return "lost", f"Failed at iteration {told.get('iteration')}: the ranks differ."
    if size == 1:
        return "unknown", "One process: there is nothing to compare."
    return "unknown", "None yet."


def changes(manifest: Mapping[str, Any]) -> list[str]:
    """Return the task settings that a run's command changed: its return is of the changed task."""
    words = manifest.get("overrides")
    found = dict(
        str(word).split("=", 1)
        for word in (words if isinstance(words, list) else [])
        if "=" in str(word)
    )
    return [
        f"{key}={value}"
        for key, value in found.items()
        if key.startswith("env.") and key not in OF_ANY_RUN
    ]


def checkpoints(run: Listed) -> list[CheckpointRow]:
    """Return a run's checkpoints, the newest first, then ``best.pt``."""
    folder = run.directory / "checkpoints"
    if not is_inside(folder, run.directory):
        return []
    files = Checkpoints(folder)
    numbered = [(files.path(number), number) for number in reversed(files.iterations())]
    evaluations = read_evaluations(folder)
    rows = []
    for path, number in [*numbered, (folder / "best.pt", None)]:
        try:
            size_mb = path.stat().st_size / 1e6
        except OSError:  # just removed, or missing
            continue
        play, resume = play_words(run.manifest, path), resume_words(run.manifest, path)
        rows.append(
            CheckpointRow(
                name=path.name,
                iteration=number,
                size_mb=size_mb,
                play=typed(play) if play else "",
                resume=typed(resume) if resume else "",
                evaluation=_told(evaluations.get(number)) if number is not None else "",
            )
        )
    return rows


def _told(evaluation: Mapping[str, Any] | None) -> str:
    """Return an evaluation in words; empty without one."""
    if evaluation is None:
        return ""
    intervals = evaluation.get("intervals")
    texts = []
    for name in ("return", "success_rate", *TRACKED, "falls_per_hour"):
        value = number_at(evaluation, name)
        if value is None:
            continue
        ends = intervals.get(name) if isinstance(intervals, Mapping) else None
        interval = ""
        if isinstance(ends, list) and [type(end) for end in ends] == [float, float]:
            interval = f" ({ends[0]:.4g} to {ends[1]:.4g})"
        texts.append(f"{NAMES.get(name, name)} {value:.4g}{interval}")
    return f"{evaluation['num_episodes']:,} episodes: {', '.join(texts)}"


def videos(run: Listed) -> list[str]:
    """Return a run's videos by their names below it, the newest first."""
    folder = run.directory / "videos"
    if not is_inside(folder, run.directory):  # it could be a link to a whole disk
        return []
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix in VIDEO_TYPES and path.is_file() and is_inside(path, run.directory)
    ]
    found.sort(key=_changed_at, reverse=True)
    return [path.relative_to(run.directory).as_posix() for path in found]


def video(run: Listed, name: str) -> Path:
    """Return the file of a video, which must be a listed one.

    Raises:
        RunDirectoryError: If it is not.
    """
    if name not in videos(run):
        raise RunDirectoryError(f"The run {run.name} has no video {name!r}.")
    return run.directory / name


def logs(run: Listed) -> list[tuple[str, str]]:
    """Return the ends of a run's text files, the newest first."""
    launch = (run.manifest.get("launch") or {}).get("name")
    folders = [run.directory]
    # The folder of envlab cluster on a host has runs/<launch>/ next to logs/.
    if isinstance(launch, str) and launch.isprintable() and "/" not in launch:
        folders += [run.root / "runs" / launch, run.root / "runs" / launch / "ranks"]
    found = [
        path
        for folder in folders
        if os.path.isdir(folder)  # unlike Path's, also of a name that is too long for one
        for path in folder.iterdir()
        if path.suffix in _LOG_TYPES and path.is_file() and is_inside(path, run.root)
    ]
    found.sort(key=_changed_at, reverse=True)
    return [(os.path.relpath(path, run.directory), _tail(path)) for path in found]


def _changed_at(path: Path) -> float:
    stat = stat_of(path)
    return 0.0 if stat is None else stat.st_mtime


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES)
            file.seek(start)
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"It cannot be read ({error.strerror})."
    # A progress line overwrites itself, so only its last state is shown.
    lines = [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    return printable("\n".join(lines[1:] if start else lines))
