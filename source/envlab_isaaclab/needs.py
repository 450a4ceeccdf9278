"""What a task of Isaac Lab's needs that is not here, as far as its configuration tells.

No simulation is made. What a task spawns by its own code, and what MuJoCo makes of it, is not seen.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec

from envlab.registry import load_entry_point
from envlab_isaaclab.changes import GAINS
from envlab_isaaclab.kit import NUCLEUS
from envlab_isaaclab.settings import new_from
from envlab_isaaclab.spawn_files import has_model

REFUSED = {
    "ConeCfg": "MuJoCo has no cones",
    "MeshConeCfg": "MuJoCo has no cones",
    "DeformableObjectCfg": "deformable bodies are not simulated",
    "SurfaceGripperCfg": "surface grippers are not simulated",
    "MultiAssetSpawnerCfg": "all environments are one model",
    "MultiUsdFileCfg": "all environments are one model",
    "MultiMeshRayCasterCfg": "rays see one mesh",
}
"""Names of Isaac Lab's that end a run, and why."""
_FILES = ("usd_path", "policy_path", "network_file")
_NETWORKS = {"resnet": "torchvision", "theia": "transformers"}
"""Packages of networks that see pictures, by how ``model_name`` begins."""
DRAWN = "VisualizationMarkersCfg"
"""Name of a configuration of which nothing is spawned, as markers are not drawn."""


def needs_of(spec: EnvSpec) -> list[str]:
    """Return what a registered task needs, in a few words each; nothing: it can be made.

    Args:
        spec: Its registration, whose configuration and environment are imported.
    """
    try:
        load_entry_point(spec.entry_point)
        cfg = new_from(spec.kwargs["env_cfg_entry_point"])
    except Exception as error:  # of a project's code, which is to be told of and not to end a list
        return [_reason(error)]
    return list(dict.fromkeys(_missing(cfg, set())))


def _reason(error: Exception) -> str:
    """Return what was lacking when a task's code ended with an error."""
    for one in (error, error.__cause__):
        if isinstance(one, ModuleNotFoundError) and one.name:
            return f"the package {one.name.partition('.')[0]}"
    text = " ".join(str(error).split())
    lost = re.search(rf"{NUCLEUS}/[^\s'\"]+", text)
    if lost is not None:
        return lost.group().removeprefix(f"{NUCLEUS}/")
    return f"{type(error).__name__}: {text}"


def _missing(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield what a part of a configuration needs."""
    kind = type(value).__name__
    if id(value) in seen or isinstance(value, str | type) or kind == DRAWN:
        return
    seen.add(id(value))
    if kind in REFUSED:
        yield f"{kind}: {REFUSED[kind]}"
        return
    if isinstance(value, Mapping):
        parts = dict(value)
    elif isinstance(value, list | tuple | set):
        parts = dict(enumerate(value))
    else:
        parts = dict(getattr(value, "__dict__", {}))
    for name, part in parts.items():
        if name in _FILES and isinstance(part, str) and not _is_there(str(name), part):
            yield part.removeprefix(f"{NUCLEUS}/")
        if name == "model_name" and isinstance(part, str):
            package = next((one for word, one in _NETWORKS.items() if part.startswith(word)), None)
            if package is not None and importlib.util.find_spec(package) is None:
                yield f"the package {package}"
        yield from _missing(part, seen)


def _is_there(name: str, file: str) -> bool:
    if name == "usd_path":
        return has_model(file)
    known = name == "network_file" and any(re.search(word, file) for word in GAINS)
    return known or Path(file).is_file()
