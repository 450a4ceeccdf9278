"""What a message says of the runs there are, where the one that was asked for is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from envlab.rl.run.checkpoints import Checkpoints
from envlab.rl.run.manifest import read_manifests

_ORIGINS = ("algorithm", "ml_framework")
"""Flags that a library may need to find a run again; a manifest has those of its library."""


def flags_of(values: Mapping[str, Any], origin: Mapping[str, str]) -> str:
    """Return the flags by which a run is meant: those of its origin that differ from what is asked.

    Args:
        values: A manifest, or what a checkpoint holds.
        origin: What was asked for, see :attr:`envlab.rl.agent_cfg.AgentCfg.origin`.
    """
    differing = [name for name in origin if values.get(name) != origin[name]]
    return " ".join(f"--{name}={values.get(name)}" for name in differing)


def name_other_run(
    root: Path,
    *,
    library: str,
    experiment: str,
    origin: Mapping[str, str],
    tasks: Collection[str],
    is_named: Callable[[str], bool],
) -> str:
    """Return a sentence on the newest other run with a checkpoint, and how to ask for it.

    One of the same library goes first. It is empty where there is none.

    Args:
        root: Folder of all runs.
        library: What was asked for, as are ``experiment`` and ``origin``.
        experiment: See ``library``.
        origin: See ``library``.
        tasks: Ids of the task.
        is_named: Whether a folder's name is one that was asked for.
    """
    others = {
        run: manifest
        for run, manifest in read_manifests(root, "*/*/*").items()
        if manifest.get("task") in tasks
        and is_named(run.name)
        and Checkpoints(run / "checkpoints").iterations()
    }
    same = [run for run, manifest in others.items() if manifest.get("library") == library]
    if not others:
        return ""
    run = (same or list(others))[-1]
    manifest = others[run]
    if not same:
        own = [f"--{name}={manifest[name]}" for name in _ORIGINS if name in manifest]
        trained = " ".join([str(manifest.get("library")), *own])
        return f"There is {run}, which was trained with {trained}: use that library's script."
    flags = flags_of(manifest, origin)
    if not flags and run.parent.name != experiment:
        flags = f"--experiment_name={run.parent.name}"
    return f"There is {run}, which was trained with {flags}: add that." if flags else ""
