"""Files of motion clips: the ``.npz`` of mjlab, holosoma and Isaac Lab, and CSV of states.

- mjlab 1.6.0, BeyondMimic, UniLab: ``fps``, ``joint_pos``, ``joint_vel``, ``body_pos_w``,
  ``body_quat_w``, ``body_lin_vel_w``, ``body_ang_vel_w``, of all bodies of the robot, unnamed.
- holosoma 0.0.3: the same with ``joint_names`` and ``body_names``; in front of the joints,
  ``joint_pos`` has seven columns of the root and ``joint_vel`` six.
- Isaac Lab 2.3's AMP: ``fps``, ``dof_names``, ``body_names``, ``dof_positions``,
  ``dof_velocities``, ``body_positions``, ``body_rotations``, ``body_linear_velocities`` and
  ``body_angular_velocities``.
- CSV as in LAFAN1 retargeted to Unitree's robots: a row for each frame, with the root's position,
  its orientation as (x, y, z, w), and the joints in the order of the model.

All quaternions except the CSV's are (w, x, y, z). Reading runs no code: pickled arrays are refused.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from envlab.archives import read_arrays
from envlab.errors import ConfigurationError
from envlab.foreign import read_text
from envlab.motion.clip import MotionClip, clip_of_states

_BODIES = ("body_pos_w", "body_quat_w", "body_lin_vel_w", "body_ang_vel_w")
_MJLAB = ("fps", "joint_pos", "joint_vel", *_BODIES)
_AMP = {
    "fps": "fps",
    "dof_positions": "joint_pos",
    "dof_velocities": "joint_vel",
    "body_positions": "body_pos_w",
    "body_rotations": "body_quat_w",
    "body_linear_velocities": "body_lin_vel_w",
    "body_angular_velocities": "body_ang_vel_w",
    "dof_names": "joint_names",
    "body_names": "body_names",
}
MOST_CSV_BYTES = 2**27
"""Limit of a CSV, which becomes four times as large in memory: hours of a humanoid's motion."""
_ROOT = (7, 6)
"""Columns of a root in ``joint_pos`` and ``joint_vel`` of holosoma's files."""


def find_clip(source: str) -> Path:
    """Return the file that ``source`` names: a path, or ``package:path/inside/it.npz``.

    Raises:
        ConfigurationError: If there is no such file; for a folder, with its contents.
    """
    path = Path(source)
    package, colon, relative = source.partition(":")
    if colon and not path.exists():
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            raise ConfigurationError(
                f"The motion {source!r} should be in the package {package!r}, which is not "
                "installed. Give a path, or package:path."
            )
        path = Path(spec.submodule_search_locations[0]) / relative
    if path.is_dir():
        found = sorted(file.name for file in path.iterdir() if file.suffix in (".npz", ".csv"))
        raise ConfigurationError(
            f"The motion {source!r} is a folder, and must be a file. It holds "
            f"{', '.join(found[:8]) or 'no .npz or .csv'}{', ...' if len(found) > 8 else '.'}"
        )
    if not path.is_file():
        raise ConfigurationError(
            f"There is no motion {source!r} ({path} is not a file). Give a .npz; of a .csv, "
            "'envlab motion convert' makes one."
        )
    return path


def read_clip(source: str | Path) -> MotionClip:
    """Read a clip, see the module for the layouts.

    Raises:
        ConfigurationError: If there is none, or its layout is unknown, or it is not usable.
    """
    path = find_clip(str(source))
    if path.suffix == ".csv":
        raise ConfigurationError(
            f"The motion {path} is a CSV, which has no body states. Make them first: "
            f"envlab motion convert {path} --fps 30 --output {path.with_suffix('.npz').name}"
        )
    return _clip(path, _arrays(path)).check()


def read_csv(
    path: Path, model: mujoco.MjModel, fps: float, frames: tuple[int, int] | None = None
) -> MotionClip:
    """Read a CSV of states and compute the motion of bodies, see the module.

    Args:
        path: The file, without a header.
        model: The robot, whose first joint is free.
        fps: Frames per second, which the file does not contain.
        frames: First and last frame to read, counted from 1, like mjlab's ``--line-range``.

    Raises:
        ConfigurationError: If it is not a table of numbers, or not of this robot.
    """
    try:
        text = read_text(find_clip(str(path)), MOST_CSV_BYTES)
        table = np.loadtxt(text.splitlines(), delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The motion {path} is not a table of numbers, separated by commas ({error})."
        ) from None
    if table.shape[1] != model.nq:
        raise ConfigurationError(
            f"The motion {path} has {table.shape[1]} columns, but this robot needs {model.nq}: "
            f"position and orientation (x, y, z, w) of the root, and {model.nq - 7} joints."
        )
    if frames is not None:
        first, last = frames
        if not 1 <= first < last <= len(table):
            raise ConfigurationError(
                f"The frames {first} to {last} of {path} were requested, but it has frames 1 to "
                f"{len(table)}, and the last must be after the first."
            )
        table = table[first - 1 : last]
    table[:, 3:7] = table[:, [6, 3, 4, 5]]
    _check_states(path, table)
    return clip_of_states(str(path), model, table, fps)


def write_clip(clip: MotionClip, path: Path) -> None:
    """Write a clip atomically in mjlab's layout, with names, which mjlab does not read.

    Raises:
        ConfigurationError: If the file cannot be written.
    """
    arrays: dict[str, Any] = {"fps": np.array([clip.fps])}
    arrays |= {name: getattr(clip, name).astype(np.float32) for name in _MJLAB[1:]}
    for name in ("joint_names", "body_names"):
        if getattr(clip, name) is not None:
            arrays[name] = np.array(getattr(clip, name))
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(partial, path)
    except OSError as error:
        raise ConfigurationError(f"The motion cannot be written to {path} ({error}).") from error
    finally:
        partial.unlink(missing_ok=True)


def _check_states(path: Path, qpos: np.ndarray) -> None:
    """Refuse states for which forward kinematics would be meaningless."""
    bad = ~np.isfinite(qpos).all(axis=1)
    if bad.any():
        raise ConfigurationError(f"The motion {path} is not finite in frame {bad.argmax() + 1}.")
    length = np.linalg.norm(qpos[:, 3:7], axis=1)
    worst = int(np.abs(length - 1.0).argmax())
    if abs(length[worst] - 1.0) > 0.01:
        raise ConfigurationError(
            f"The motion {path} has an orientation of length {length[worst]:.3g} in frame "
            f"{worst + 1}, but columns 4 to 7 must be a unit quaternion (x, y, z, w)."
        )
    if len(qpos) < 2:
        raise ConfigurationError(f"The motion {path} has one frame, and must have 2 or more.")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The motion {path} cannot be read as .npz ({error}).") from error


def _clip(path: Path, arrays: Mapping[str, np.ndarray]) -> MotionClip:
    if "dof_positions" in arrays:
        arrays = {_AMP.get(name, name): values for name, values in arrays.items()}
    missing = [name for name in _MJLAB if name not in arrays]
    if missing:
        raise ConfigurationError(
            f"The motion {path} lacks {', '.join(missing)}; it has {', '.join(arrays) or 'nothing'}"
            f". Expected are {', '.join(_MJLAB)} (mjlab, holosoma), or Isaac Lab's dof_positions "
            "and so on."
        )
    fields: dict[str, Any] = {name: _numbers(path, name, arrays[name]) for name in _MJLAB}
    fps = fields.pop("fps")
    if fps.size != 1:
        raise ConfigurationError(f"The motion {path} has {fps.size} values of fps, and needs 1.")
    names: dict[str, Any] = {
        name: _names(arrays.get(name)) for name in ("joint_names", "body_names")
    }
    if names["joint_names"] is not None:
        _drop_root(fields, len(names["joint_names"]))
    names["body_names"] = _drop_world(fields, names["body_names"])
    return MotionClip(name=str(path), fps=float(fps.reshape(())), **fields, **names)


def _numbers(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    dimensions = {"fps": values.ndim, "joint_pos": 2, "joint_vel": 2}.get(name, 3)
    if values.dtype.kind not in "fiu" or values.ndim != dimensions:
        raise ConfigurationError(
            f"{name} of the motion {path} is {values.dtype} of shape {values.shape}, but must be "
            f"numbers in {dimensions} dimensions."
        )
    return values.astype(np.float64)


def _names(values: np.ndarray | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(name) for name in values.reshape(-1))


def _drop_root(fields: dict[str, Any], num_joints: int) -> None:
    """Leave out the root's columns, which holosoma's files have in front of the joints."""
    for name, width in zip(("joint_pos", "joint_vel"), _ROOT, strict=True):
        if fields[name].shape[1] == num_joints + width:
            fields[name] = fields[name][:, width:]


def _drop_world(
    fields: dict[str, Any], body_names: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Leave out the world, which holosoma's files have among the bodies."""
    if body_names is None or "world" not in body_names:
        return body_names
    kept = [i for i, name in enumerate(body_names) if name != "world"]
    for name in _BODIES:
        if fields[name].shape[1] == len(body_names):
            fields[name] = fields[name][:, kept]
    return tuple(body_names[i] for i in kept)
