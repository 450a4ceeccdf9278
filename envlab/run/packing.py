"""A run's policy for publication: without optimizer, environments, and its machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from envlab.distributed.checkpoint import save_checkpoint
from envlab.errors import RunDirectoryError
from envlab.foreign import read_text
from envlab.run.checkpoints import Checkpoints, check_header, of_leader
from envlab.run.directory import refuse_links
from envlab.run.manifest import read_manifest

PRIVATE = (
    "host",
    "pid",
    "launch",
    "flags",
    "services",
    "resumed_from",
    "policy_from",
    "started_with",
)
"""Manifest keys on the machine and the moment, which do not concern others."""


EXPORTED_FROM = "checkpoint.json"
"""The file next to an exported policy with the iteration of its checkpoint."""


def pack(run: Path, selector: str, folder: Path, checkpoint: str) -> dict[str, Any]:
    """Write a run's policy, manifest and parameters into a folder; return the public manifest.

    Args:
        run: The run directory.
        selector: ``latest``, ``best``, or the name of a checkpoint's file.
        folder: Folder to make and write to.
        checkpoint: Path of the checkpoint in it.

    Raises:
        EnvlabError: If there is no such run or checkpoint, it is damaged, or a link in it leads
            elsewhere.
    """
    refuse_links(run, "which would be published")
    manifest = read_manifest(run)
    _, values = Checkpoints(run / "checkpoints").find(selector, check_header)
    values = of_leader(values)  # whose networks are in a rank's part
    values |= {"ranks": [{}] * values["world_size"], "services": {}, "metrics": {}}
    values["model"] = _without_moments(values["model"])
    file = folder / checkpoint
    file.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(file, {k: v for k, v in values.items() if k != "format_version"})
    _copy_parameters(run / "params", folder / "params")
    public = {key: value for key, value in manifest.items() if key not in PRIVATE}
    command = str(manifest.get("command", ""))
    public["command"] = re.sub(r"(?<!\S)/\S*/(?=scripts/|envlab\b)", "", command)
    public |= {name: values[name] for name in ("iteration", "frames")}
    (folder / "run.json").write_text(json.dumps(public, indent=2) + "\n")
    return public


def _copy_parameters(source: Path, folder: Path) -> None:
    """Copy a run's configurations, and no other file of their folder.

    Raises:
        RunDirectoryError: If a configuration is missing or cannot be read.
    """
    folder.mkdir(exist_ok=True)
    needed = {source / "env.yaml", source / "agent.yaml"}
    for path in sorted(needed | set(source.glob("*.yaml"))):
        try:
            (folder / path.name).write_text(read_text(path))
        except (OSError, UnicodeDecodeError) as error:
            raise RunDirectoryError(
                f"{source.parent} cannot be published: {path} cannot be read ({error}). The policy "
                "cannot be played without it; publish the whole run directory."
            ) from error


def _without_moments(value: Any) -> Any:
    """Return a model's state without its optimizers' moments, which makes it a third as large."""
    if isinstance(value, dict):
        if set(value) == {"state", "param_groups"}:
            return {"state": {}, "param_groups": value["param_groups"]}
        return type(value)({key: _without_moments(item) for key, item in value.items()})
    return value
