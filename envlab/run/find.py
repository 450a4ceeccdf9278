"""Finding a run among the existing ones, and the message if there is none."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from envlab.errors import RunDirectoryError
from envlab.run.checkpoints import Checkpoints
from envlab.run.commands import library_words
from envlab.run.manifest import LOG_ROOT, read_manifests
from envlab.run.pretrained import TRAIN_FIRST, shipped

logger = logging.getLogger(__name__)


def find_run(
    library: str,
    experiment: str,
    load_run: str | None = None,
    root: str = LOG_ROOT,
    origin: Mapping[str, str] | None = None,
    tasks: Collection[str] = (),
) -> Path:
    """Return the newest run of an experiment that has a checkpoint.

    Args:
        library: RL library.
        experiment: Experiment name.
        load_run: A run's folder name, a regular expression for it, or a path. None: any.
        root: Folder of all runs.
        origin: Values that the run's manifest must hold, such as the algorithm.
        tasks: Ids of the task; the error message names another run of it.

    Raises:
        RunDirectoryError: If there is none, naming another run and how to ask for it.
    """
    if load_run and (Path(load_run) / "run.json").is_file():
        return Path(load_run).absolute()
    parent = Path(root).absolute() / library / experiment
    origin = dict(origin or {})
    manifests = read_manifests(parent, level=logging.WARNING)
    runs = [
        run
        for run, manifest in manifests.items()
        if _is_named(run.name, load_run) and origin.items() <= manifest.items()
    ]
    with_checkpoint = [run for run in runs if Checkpoints(run / "checkpoints").iterations()]
    if not with_checkpoint:
        wanted = f" of {', '.join(map(str, origin.values()))}" if origin else ""
        wanted += f" that matches {load_run!r}" if load_run else ""
        other = _other_run(parent, load_run, origin, tasks)
        raise RunDirectoryError(
            f"There is no run with a checkpoint{wanted} in {parent}. "
            + shipped(library, tasks)
            + (other or _begun(runs, manifests) or TRAIN_FIRST)
        )
    chosen, newest = with_checkpoint[-1], runs[-1]
    if newest != chosen:
        logger.warning("The newest run, %s, has no checkpoint; taking %s.", newest, chosen)
    return chosen


def _begun(runs: Collection[Path], manifests: Mapping[Path, Mapping[str, Any]]) -> str:
    """Return a sentence on the newest run without a checkpoint yet; empty if there is none."""
    for run in reversed(list(runs)):
        status = manifests[run].get("status")
        if status == "running":  # also the status of a killed run
            return f"{run} has none yet: wait for its first one, or start it again if it was ended."
        return f"{run} ended before its first one ({status}): start it again."
    return ""


def _is_named(name: str, wanted: str | None) -> bool:
    """Return whether ``wanted`` is the start of a name, or a regular expression for all of it."""
    try:
        return not wanted or name.startswith(wanted) or re.fullmatch(wanted, name) is not None
    except re.error as error:
        raise RunDirectoryError(
            f"--load_run is {wanted!r}, which is not a regular expression ({error}). Give the "
            "start of the run's folder name, as in 2026-11-21_10-30."
        ) from error


def flags_of(values: Mapping[str, Any], origin: Mapping[str, str]) -> str:
    """Return the flags that select a run: those of its origin that differ from the requested one.

    Args:
        values: A manifest, or the contents of a checkpoint.
        origin: The requested origin, see :attr:`envlab.agent_cfg.AgentCfg.origin`.
    """
    differing = [name for name in origin if values.get(name) != origin[name]]
    return " ".join(f"--{name}={values.get(name)}" for name in differing)


def _other_run(
    parent: Path, load_run: str | None, origin: Mapping[str, str], tasks: Collection[str]
) -> str:
    """Return a sentence on the newest run elsewhere with a checkpoint, and how to ask for it.

    A run of the same library comes first. The sentence is empty if there is none. ``parent`` is
    the folder of the requested experiment; for the other arguments see :func:`find_run`.
    """
    others = {
        run: manifest
        for run, manifest in read_manifests(parent.parents[1], "*/*/*").items()
        if manifest.get("task") in tasks
        and _is_named(run.name, load_run)
        and Checkpoints(run / "checkpoints").iterations()
    }
    if not others:
        return ""
    same = [run for run, found in others.items() if found.get("library") == parent.parent.name]
    run = (same or list(others))[-1]
    manifest = others[run]
    if not same:
        trained = " ".join(library_words(manifest))
        return f"There is {run}, which was trained with {trained}: use that library's script."
    flags = flags_of(manifest, origin)
    if not flags and run.parent.name != parent.name:
        flags = f"--experiment_name={run.parent.name}"
    return f"There is {run}, which was trained with {flags}: add that." if flags else ""
