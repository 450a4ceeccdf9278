"""The manifest of a run, ``run.json``: what was run, where, and its status."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import math
import os
import platform
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envlab import __version__
from envlab.commit import git_state
from envlab.distributed.disk import is_disk_error, overwrite, whole_file
from envlab.errors import RunDirectoryError
from envlab.foreign import parse_json, read_text
from envlab.libraries import ENGINE_PACKAGES, libraries
from envlab.run.commands import started_with

if TYPE_CHECKING:  # which loads torch
    from envlab.distributed.context import DistributedContext

logger = logging.getLogger(__name__)

LOG_ROOT = "logs"
"""Folder of all runs, below the one where training is started."""
MANIFEST_VERSION = 1
REPORT = "stall.txt"
_TYPES: dict[type, tuple[str, ...]] = {
    dict: ("world", "launch", "services", "audit", "versions", "git", "code"),
    list: ("restarts",),
    str: (
        *("task", "library", "status", "created_at", "resumed_from", "algorithm", "ml_framework"),
        *("command", "git.commit", "launch.name"),
    ),
    int: (
        *("seed", "global_num_envs", "num_envs", "total_iterations", "version", "pid"),
        *("world.size", "world.local_size"),
    ),
    float: ("mean_return",),
}
"""The types of the keys that commands read, those of a mapping after it; each may be absent or
null."""


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return a run's manifest.

    Raises:
        RunDirectoryError: If there is none, or it is damaged.
    """
    path = directory / "run.json"
    try:
        manifest = parse_json(read_text(path))
        _check_types(manifest)
    except (OSError, ValueError) as error:
        raise RunDirectoryError(
            f"{directory} is not a run directory: {path} cannot be read ({error})."
        ) from error
    return dict(manifest)


def _check_types(manifest: Any) -> None:
    """Raise ValueError for a value that envlab never writes into a manifest."""
    if not isinstance(manifest, dict):
        raise ValueError(f"it holds {type(manifest).__name__}, not a manifest")
    for wanted, names in _TYPES.items():
        for name in names:
            outer, _, inner = name.partition(".")
            value = manifest.get(outer)
            if inner:
                value = value.get(inner) if value is not None else None
            if value is None or (wanted is float and type(value) is int):
                continue
            if type(value) is not wanted or (isinstance(value, str) and "\0" in value):
                raise ValueError(f"{name} must be {wanted.__name__}, but is {value!r:.80}")


def read_manifests(
    root: Path, pattern: str = "*", *, level: int = logging.DEBUG
) -> dict[Path, dict[str, Any]]:
    """Return the run directories below a folder, the oldest first, and their manifests.

    Args:
        root: The folder.
        pattern: Which directories below it.
        level: Log level for a run that is skipped because its manifest is damaged.
    """
    found: list[tuple[datetime, str, Path, dict[str, Any]]] = []
    for directory in (path.parent for path in root.glob(f"{pattern}/run.json")):
        if is_copy(directory):
            continue
        try:
            manifest = read_manifest(directory)
            moment = datetime.fromisoformat(manifest["created_at"]).astimezone()
        except (RunDirectoryError, KeyError, TypeError, ValueError, OverflowError) as error:
            logger.log(level, "The run %s is skipped: %s", directory, error)
        else:
            found.append((moment, directory.name, directory, manifest))
    return {directory: manifest for *_, directory, manifest in sorted(found, key=lambda f: f[:2])}


def is_copy(directory: Path) -> bool:
    """Return whether a folder is what Weights & Biases keeps of a run: ``wandb/*run-*/files``."""
    wandb, kept, name = directory.parts[-3:] if len(directory.parts) > 2 else ("", "", "")
    return wandb == "wandb" and "run-" in kept and name == "files"


def finite(values: Any) -> Any:
    """Return ``values`` with null for numbers that JSON does not have (NaN, infinity)."""
    if isinstance(values, dict):
        return {key: finite(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def write_json(path: Path, values: Any) -> None:
    """Write JSON atomically, or over its own blocks where the folder takes no new file.

    Raises:
        OSError: If it cannot be written.
    """
    data = (json.dumps(values, indent=2) + "\n").encode()
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        if not is_disk_error(error) or not overwrite(path, data):
            raise


def new_manifest(
    context: DistributedContext, library: str, facts: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a run that begins, with ``facts`` over the standard entries."""
    return {
        "version": MANIFEST_VERSION,
        "library": library,
        "created_at": now(),
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "started_with": started_with(),
        "versions": package_versions(library),
        "git": git_state(),
        "world": {
            "size": context.world_size,
            "local_size": context.local_world_size,
            "device": context.device.type,
            "backend": context.backend,
            "num_threads": context.num_threads,
        },
        "host": context.node,
        "pid": os.getpid(),
        **facts,
    }


def package_versions(library: str) -> dict[str, str]:
    """Return the versions of the packages on which a run's results depend."""
    known = libraries().get(library)
    versions = {"envlab": __version__, "python": platform.python_version()}
    for package in (*ENGINE_PACKAGES, *(known.packages if known else ())):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def now() -> str:
    """Return the time with its zone, as written in manifests."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def reopened_manifest(directory: Path, current: dict[str, Any], iteration: int) -> dict[str, Any]:
    """Return the manifest of a run that continues: the old one with its new world."""
    before = read_manifest(directory)
    restart = {
        "at": now(),
        "iteration": iteration,
        "world_size": current["world"]["size"],
        "after": before["status"],
        "error": before.pop("error", None),
    }
    changed = ("versions", "code", "world", "host", "pid", "launch", "num_envs", "global_num_envs")
    return {
        **before,
        **{name: current[name] for name in changed if name in current},
        "restarts": [*before.get("restarts", []), restart],
        "status": "running",
        "updated_at": now(),
    }


def record_end(directory: Path, sentence: str, report: str | None = None) -> None:
    """Write into a run directory that the run failed and why, on behalf of a rank 0 that cannot.

    Any rank may do it, except one on another node that cannot see the directory. A manifest that
    already records an end keeps it.

    Args:
        directory: The run directory.
        sentence: What happened.
        report: The watchdog's whole report, with stacks, for :data:`REPORT`.
    """
    if not directory.is_dir():
        return
    try:
        manifest = read_manifest(directory)
        if manifest["status"] == "running":
            manifest |= {"status": "failed", "error": sentence, "updated_at": now()}
            write_json(directory / "run.json", manifest)
    except (OSError, RunDirectoryError) as error:
        logger.warning("The end cannot be recorded in %s (%s).", directory, error)
    if report is None:
        return
    try:  # whatever the locale, and the characters in the source lines of the stacks
        text = f"{now()}\n{report}\n".encode(errors="backslashreplace")
        (directory / REPORT).write_bytes(text)
    except OSError as error:
        logger.warning("The end cannot be recorded in %s (%s).", directory, error)
