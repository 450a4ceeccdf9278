"""What is simulated: the scene of a task, and compiling its model."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from pathlib import Path

import mujoco

from envlab.errors import SimulationError


@dataclass(kw_only=True)
class SceneCfg:
    """The scene of a task (``env.scene.*``)."""

    num_envs: int = 4096
    """Environments per process."""
    model: str = ""
    """MJCF file: a path, or ``package:path/inside/it.xml``."""


def build_model(cfg: SceneCfg) -> mujoco.MjModel:
    """Compile the scene of ``cfg``.

    Raises:
        SimulationError: If its model is missing or MuJoCo refuses it.
    """
    return load_model(cfg.model)


def load_model(source: str) -> mujoco.MjModel:
    """Compile the MJCF that ``source`` names.

    Args:
        source: A file path, or ``package:relative/path.xml``.

    Raises:
        SimulationError: If the file is missing or MuJoCo refuses it.
    """
    path = Path(source)
    package, colon, relative = source.partition(":")
    if colon and not path.exists():
        try:
            path = Path(str(importlib.resources.files(package))) / relative
        except ModuleNotFoundError as error:
            raise SimulationError(
                f"env.scene.model is {source!r}, but there is no package {package!r}."
            ) from error
    if not path.is_file():
        raise SimulationError(
            f"env.scene.model is {source!r}, but {path} is not a file. Give a path or package:path."
        )
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise SimulationError(f"MuJoCo cannot compile {path}: {error}") from error
