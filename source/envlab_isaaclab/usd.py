"""Robots from USD files, which ``mujoco[usd]`` reads."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import mujoco

from envlab.errors import ConfigurationError
from envlab_isaaclab.things import Robot, robot

_FREE = mujoco.mjtJoint.mjJNT_FREE


READER = f'which needs: pip install "mujoco[usd]=={mujoco.__version__}"'
"""What to install for USD files."""


def is_pointer(path: Path) -> bool:
    """Return whether Git LFS has left a pointer in a file's place."""
    with path.open("rb") as file:
        return file.read(7) == b"version"


def has_reader() -> bool:
    """Return whether MuJoCo's reader of USD is installed."""
    return importlib.util.find_spec("mujoco.usd.MjcPhysics") is not None


def read_usd(path: Path, **settings: Any) -> Robot:
    """Return the robot of a USD file.

    Args:
        path: The file, crate or text, with its layers in the same folder.
        settings: More of what :class:`Robot` says.

    Raises:
        ConfigurationError: If the reader is not installed, or the file does not compile.
    """
    if is_pointer(path):
        raise ConfigurationError(f"{path} is a pointer of Git LFS, not the file: git lfs pull.")
    if not has_reader():
        raise ConfigurationError(f"{path} is a USD file, {READER}.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            spec = mujoco.MjSpec.from_file(str(_cleaned(path, Path(folder))))
            spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigurationError(
            f"{path} cannot be made a MuJoCo model: {' '.join(str(error).split())}"
        ) from error
    for kind in ("geoms", "bodies", "joints"):
        _shorten(list(getattr(spec, kind)))
    tops = list(spec.worldbody.bodies)
    if not tops:
        raise ConfigurationError(f"{path} cannot be a robot: nothing in it is a rigid body.")
    while len(tops) == 1 and not list(tops[0].joints) and not tops[0].mass and not tops[0].geoms:
        below = list(tops[0].bodies)
        if len(below) != 1:
            break
        tops = below
    settings.setdefault("is_fixed", not any(one.type == _FREE for one in tops[0].joints))
    return robot(spec, **settings)


def _shorten(parts: list[Any]) -> None:
    """Take the last word of prims' paths for names, where it is not taken."""
    taken = {one.name for one in parts}
    for one in parts:
        short = one.name.rpartition("/")[2]
        if short and short not in taken:
            taken.add(short)
            one.name = short


def _cleaned(path: Path, folder: Path) -> Path:
    """Return a copy of the stage by :mod:`envlab_isaaclab.usd_stage`."""
    target = folder / "robot.usda"
    command = [sys.executable, "-m", "envlab_isaaclab.usd_stage", str(path.resolve()), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"code {done.returncode}"]
        raise ConfigurationError(f"{path} cannot be read: {lines[-1]}.")
    return target
