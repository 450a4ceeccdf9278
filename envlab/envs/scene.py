"""What is simulated: loading the model, and selecting joints, bodies and sensors of it by name."""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import dataclass
from pathlib import Path

import mujoco
import torch

from envlab.errors import ConfigurationError, SimulationError, did_you_mean


@dataclass(kw_only=True)
class SceneCfg:
    """The scene of a task (``env.scene.*``)."""

    num_envs: int = 4096
    """Environments per process."""
    model: str = ""
    """MJCF file: a path, or ``package:path/inside/it.xml``."""


@dataclass
class SceneEntityCfg:
    """The joints, bodies or sensors a term is about, by regular expressions that match in full."""

    name: str = "robot"
    """Kept for Isaac Lab's configurations; one MJCF holds the whole scene."""
    joint_names: str | list[str] | None = None
    """Joints, null for all."""
    body_names: str | list[str] | None = None
    """Bodies, null for all but the world."""
    sensor_names: str | list[str] | None = None
    """Sensors, null for all."""


@dataclass(frozen=True)
class SceneEntity:
    """A :class:`SceneEntityCfg` looked up in a model: indices into the fields of the simulation.

    Indices are slices where they are contiguous, which read without a copy, else int64 tensors.
    """

    joint_names: list[str]
    """Names of the selected joints, in the model's order."""
    qpos_ids: slice | torch.Tensor
    """Columns of ``qpos`` (several per free or ball joint)."""
    qvel_ids: slice | torch.Tensor
    """Columns of ``qvel`` and of every other per-degree-of-freedom field."""
    body_ids: slice | torch.Tensor
    """Rows of body fields (``xpos``, ``body_mass``, ...)."""
    sensor_ids: slice | torch.Tensor
    """Columns of ``sensordata``."""


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


def resolve_entity(cfg: SceneEntityCfg, model: mujoco.MjModel, device: torch.device) -> SceneEntity:
    """Look up the names of ``cfg`` in ``model``.

    Raises:
        ConfigurationError: For a name that matches nothing, with the nearest names.
    """
    joints = _match("joint", cfg.joint_names, [model.joint(i).name for i in range(model.njnt)])
    bodies = _match("body", cfg.body_names, [model.body(i).name for i in range(1, model.nbody)])
    sensors = _match(
        "sensor", cfg.sensor_names, [model.sensor(i).name for i in range(model.nsensor)]
    )
    qpos_ids: list[int] = []
    qvel_ids: list[int] = []
    for joint in joints:
        kind = int(model.jnt_type[joint])
        num_positions, num_velocities = {0: (7, 6), 1: (4, 3)}.get(kind, (1, 1))
        qpos_ids += range(model.jnt_qposadr[joint], model.jnt_qposadr[joint] + num_positions)
        qvel_ids += range(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + num_velocities)
    sensor_ids: list[int] = []
    for sensor in sensors:
        start = int(model.sensor_adr[sensor])
        sensor_ids += range(start, start + int(model.sensor_dim[sensor]))
    return SceneEntity(
        joint_names=[model.joint(joint).name for joint in joints],
        qpos_ids=_index(qpos_ids, model.nq, device),
        qvel_ids=_index(qvel_ids, model.nv, device),
        body_ids=_index([body + 1 for body in bodies], model.nbody, device),
        sensor_ids=_index(sensor_ids, model.nsensordata, device),
    )


def joint_actuators(model: mujoco.MjModel, joint_names: str | list[str] | None) -> list[int]:
    """Return the actuators that drive the named joints, one per joint, in the model's joint order.

    Raises:
        ConfigurationError: If a joint has no actuator, or several.
    """
    names = [model.joint(i).name for i in range(model.njnt)]
    actuators = []
    for joint in _match("joint", joint_names, names):
        found = [
            i
            for i in range(model.nu)
            if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
            and model.actuator_trnid[i, 0] == joint
        ]
        if len(found) != 1:
            raise ConfigurationError(
                f"An action names the joint {names[joint]!r}, which has {len(found)} actuators in "
                "the model, but needs exactly one. Name another joint, or edit the MJCF."
            )
        actuators += found
    return actuators


def _match(kind: str, patterns: str | list[str] | None, names: list[str]) -> list[int]:
    if patterns is None:
        return list(range(len(names)))
    patterns = [patterns] if isinstance(patterns, str) else patterns
    matched: set[int] = set()
    for pattern in patterns:
        found = {i for i, name in enumerate(names) if re.fullmatch(pattern, name)}
        if not found:
            raise ConfigurationError(
                f"No {kind} of the model matches {pattern!r}; it has {', '.join(names) or 'none'}."
                f"{did_you_mean(pattern, names)}"
            )
        matched |= found
    return sorted(matched)


ALL = slice(None)
"""What a :class:`SceneEntity` holds where it selects everything."""


def columns(values: torch.Tensor, ids: slice | torch.Tensor) -> torch.Tensor:
    """Return ``values[:, ids]``, without a view where ``ids`` select everything."""
    return values if ids is ALL else values[:, ids]


def _index(ids: list[int], size: int, device: torch.device) -> slice | torch.Tensor:
    if ids == list(range(size)):
        return ALL
    if not ids:
        return slice(0, 0)
    if ids == list(range(ids[0], ids[-1] + 1)):
        return slice(ids[0], ids[-1] + 1)
    return torch.tensor(ids, device=device)
