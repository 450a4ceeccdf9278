"""Selecting joints, bodies, sensors, sites and geoms of a model, or of a thing in it, by name."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.envs.entity_names import (
    EntityParts,
    Names,
    check_one_thing,
    listed,
    match,
    matching,
    own_name,
    owner_of,
    prefixes_of,
)
from envlab.errors import ConfigurationError, did_you_mean

ALL = slice(None)
"""The indices of a :class:`SceneEntity` that selects everything."""

_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclass
class SceneEntityCfg:
    """The parts of the scene that a term is about, by regular expressions that match in full."""

    name: str = "robot"
    """A thing of a composed scene; the names of its parts are those of its file. Otherwise a child
    body of the world, with everything below it; if no body is called ``robot``, that name means the
    whole model."""
    joint_names: Names = None
    """Joints; null for all hinges and slides. A free joint, the entity's root, is selected by its
    own name alone, not by an expression."""
    body_names: Names = None
    """Bodies, null for all but the world."""
    sensor_names: Names = None
    """Sensors of the thing, or of a scene of one file; null for all."""
    site_names: Names = None
    """Sites, null for all."""
    geom_names: Names = None
    """Geoms, null for all."""
    tendon_names: Names = None
    """Tendons, null for all."""
    camera_names: Names = None
    """Cameras, null for all."""
    light_names: Names = None
    """Lights, null for all."""
    material_names: Names = None
    """Materials, null for all."""
    texture_names: Names = None
    """Textures, null for all."""
    pair_names: Names = None
    """Contact pairs, null for all."""
    actuator_names: Names = None
    """Actuators, null for those of the selected joints."""


_OF_MODEL = {
    "tendon": ("tendon", "ntendon"),
    "camera": ("cam", "ncam"),
    "light": ("light", "nlight"),
    "material": ("mat", "nmat"),
    "texture": ("tex", "ntex"),
    "pair": ("pair", "npair"),
}
"""Parts that belong to a thing by their name alone: their kind and their number in the model."""


@dataclass(frozen=True)
class SceneEntity:
    """A :class:`SceneEntityCfg` looked up in a model: indices into the fields of the simulation.

    Indices are slices where they are contiguous, which read without a copy, else int64 tensors.
    """

    name: str
    """The entity's name."""
    joint_names: list[str]
    """Names of the selected joints in the scene, in the model's order."""
    body_names: list[str]
    """Names of the selected bodies in the scene, in the model's order."""
    qpos_ids: slice | torch.Tensor
    """Columns of ``qpos`` (several per free or ball joint)."""
    qvel_ids: slice | torch.Tensor
    """Columns of ``qvel`` and of every other per-degree-of-freedom field."""
    actuator_ids: slice | torch.Tensor
    """Columns of ``ctrl`` and ``actuator_force`` of the selected joints' actuators, or of those
    selected by name."""
    body_ids: slice | torch.Tensor
    """Rows of body fields (``xpos``, ``body_mass``, ...)."""
    sensor_ids: slice | torch.Tensor
    """Columns of ``sensordata``."""
    site_ids: slice | torch.Tensor
    """Rows of site fields (``site_xpos``, ...)."""
    geom_ids: slice | torch.Tensor
    """Rows of geom fields (``geom_friction``, ...)."""
    joint_ids: slice | torch.Tensor
    """Rows of joint fields (``jnt_range``, ...)."""
    others: Mapping[str, slice | torch.Tensor]
    """Rows of ``tendon``, ``camera``, ``light``, ``material``, ``texture`` and ``pair`` fields."""
    prefix: str
    """What the names of a thing begin with in a composed scene, ``cube/``; else nothing."""
    root_body: int
    """The entity's topmost body; 0 if it has none."""
    root_qpos_start: int | None
    """First of the 7 columns of ``qpos`` of the free joint; None without one."""
    root_qvel_start: int | None
    """First of the free joint's 6 columns of ``qvel``."""

    mocap_id: int | None = None
    """Row of ``mocap_pos`` and ``mocap_quat`` of the topmost body; None if it is no mocap body."""

    @functools.cached_property
    def kept(self) -> dict[Hashable, Any]:
        """What terms derive from it once, by their own keys."""
        return {}

    @functools.cached_property
    def root_pos(self) -> slice:
        """Columns of ``qpos`` that hold the root's position, in m, world frame."""
        start = self._free(self.root_qpos_start)
        return slice(start, start + 3)

    @functools.cached_property
    def root_quat(self) -> slice:
        """Columns of ``qpos`` that hold the root's orientation, (w, x, y, z)."""
        start = self._free(self.root_qpos_start)
        return slice(start + 3, start + 7)

    @functools.cached_property
    def root_lin_vel(self) -> slice:
        """Columns of ``qvel`` that hold the root's linear velocity, in m/s, world frame."""
        start = self._free(self.root_qvel_start)
        return slice(start, start + 3)

    @functools.cached_property
    def root_ang_vel(self) -> slice:
        """Columns of ``qvel`` that hold the root's angular velocity, in rad/s, body frame."""
        start = self._free(self.root_qvel_start)
        return slice(start + 3, start + 6)

    def _free(self, start: int | None) -> int:
        if start is None:
            raise ConfigurationError(
                f"A term asks for the root state of {self.name!r}, which has no free joint. Give "
                "its topmost body a <freejoint/>, or choose another entity."
            )
        return start


def resolve_entity(cfg: SceneEntityCfg, model: mujoco.MjModel, device: torch.device) -> SceneEntity:
    """Look up the names of ``cfg`` in ``model``.

    Raises:
        ConfigurationError: For a name that matches nothing, with the existing names.
    """
    part = EntityParts(cfg.name, model)
    joints = [j for j in range(model.njnt) if model.jnt_bodyid[j] in part.bodies]
    free = [j for j in joints if int(model.jnt_type[j]) == _FREE]
    listed_names = listed(cfg.joint_names)
    named = [
        j
        for j in joints
        if j not in free or {model.joint(j).name, own_name(model.joint(j).name)} & {*listed_names}
    ]
    joint_ids = part.match("joint", cfg.joint_names, model.joint, named)
    if cfg.joint_names is None:
        joint_ids = [j for j in joint_ids if int(model.jnt_type[j]) in _SCALAR]
    body_ids = part.match("body", cfg.body_names, model.body, part.bodies)
    sensor_ids: list[int] = []
    sensors = part.named(model.sensor, range(model.nsensor), shared=True)
    for sensor in part.match("sensor", cfg.sensor_names, model.sensor, sensors):
        start = int(model.sensor_adr[sensor])
        sensor_ids += range(start, start + int(model.sensor_dim[sensor]))
    sites = part.on_bodies(model.site, model.site_bodyid)
    geoms = part.on_bodies(model.geom, model.geom_bodyid)
    actuator_ids = _drivers(model, joint_ids)
    if cfg.actuator_names is not None:
        actuators = part.named(model.actuator, range(model.nu))
        actuator_ids = part.match("actuator", cfg.actuator_names, model.actuator, actuators)
    qpos_ids, qvel_ids = _joint_columns(model, joint_ids)
    return SceneEntity(
        name=cfg.name,
        joint_names=[model.joint(joint).name for joint in joint_ids],
        body_names=[model.body(body).name for body in body_ids],
        qpos_ids=as_index(qpos_ids, model.nq, device),
        qvel_ids=as_index(qvel_ids, model.nv, device),
        actuator_ids=as_index(actuator_ids, model.nu, device),
        body_ids=as_index(body_ids, model.nbody, device),
        sensor_ids=as_index(sensor_ids, model.nsensordata, device),
        site_ids=as_index(
            part.match("site", cfg.site_names, model.site, sites), model.nsite, device
        ),
        geom_ids=as_index(
            part.match("geom", cfg.geom_names, model.geom, geoms), model.ngeom, device
        ),
        joint_ids=as_index(joint_ids, model.njnt, device),
        others=_others(cfg, part, model, device),
        prefix=part.prefix,
        root_body=part.root,
        root_qpos_start=int(model.jnt_qposadr[free[0]]) if free else None,
        root_qvel_start=int(model.jnt_dofadr[free[0]]) if free else None,
        mocap_id=mocap if (mocap := int(model.body_mocapid[part.root])) >= 0 else None,
    )


def _others(
    cfg: SceneEntityCfg, part: EntityParts, model: mujoco.MjModel, device: torch.device
) -> dict[str, slice | torch.Tensor]:
    """Return the rows of parts that are known by their names alone, by kind."""
    found = {}
    for kind, (name, number) in _OF_MODEL.items():
        size, lookup = int(getattr(model, number)), getattr(model, name)
        chosen = part.match(
            kind, getattr(cfg, f"{kind}_names"), lookup, part.named(lookup, range(size))
        )
        found[kind] = as_index(chosen, size, device)
    return found


def joint_actuators(
    model: mujoco.MjModel, joint_names: Names, *, preserve_order: bool = False
) -> list[int]:
    """Return the actuators that drive the named joints, one per joint, in the model's joint order.

    Args:
        model: The model.
        joint_names: Regular expressions that match in full; None: all joints.
        preserve_order: Whether the order is that of ``joint_names`` instead.

    Raises:
        ConfigurationError: If a joint has no actuator, or several.
    """
    return actuators_of("joint", model, joint_names, preserve_order=preserve_order)


def actuators_of(
    kind: str,
    model: mujoco.MjModel,
    names: Names,
    *,
    preserve_order: bool = False,
    thing: str = "",
) -> list[int]:
    """Return the actuators of ``joint``s, ``tendon``s or ``site``s; see :func:`joint_actuators`.

    If the scene has a thing of the name ``thing``, they are its own.
    """
    lookup, number = getattr(model, kind), {"joint": "njnt"}.get(kind, f"n{kind}")
    ids = [
        i
        for i in range(getattr(model, number))
        if kind != "joint" or int(model.jnt_type[i]) != _FREE
    ]
    prefixes = prefixes_of(model)
    if thing in prefixes:
        ids = [i for i in ids if owner_of(lookup(i).name, prefixes) == thing]
    actuators = []
    chosen = match(kind, names, lookup, ids, preserve_order=preserve_order)
    if names is not None:
        check_one_thing(kind, listed(names), [lookup(i).name for i in chosen], model)
    for one in chosen:
        found = _drivers(model, [one], kind)
        if len(found) != 1:
            driven = [lookup(i).name for i in ids if len(_drivers(model, [i], kind)) == 1]
            raise ConfigurationError(
                f"An action names the {kind} {lookup(one).name!r}, which has {len(found)} "
                f"actuators in the model, but needs exactly one. Those with one are "
                f"{', '.join(driven) or 'none'}: name them, or edit the MJCF."
            )
        actuators += found
    return actuators


def joint_values(
    values: Mapping[str, float],
    joint_names: Sequence[str],
    *,
    default: float | None = None,
    kind: str = "joint",
) -> list[float]:
    """Return a value for each joint, from values by regular expressions that match in full.

    Args:
        values: The values by expression.
        joint_names: The joints.
        default: Value of joints that match no expression; None: each must match one.
        kind: The kind of part that the names belong to, for errors.

    Raises:
        ConfigurationError: If a joint matches no expression or several, or one matches no joint.
    """
    chosen = []
    for joint in joint_names:
        found = [pattern for pattern in values if matching(pattern, [joint])]
        if len(found) > 1 or (not found and default is None):
            raise ConfigurationError(
                f"The {kind} {joint!r} matches {len(found)} of the patterns {', '.join(values)}, "
                f"but must match {'exactly' if default is None else 'at most'} one."
            )
        chosen.append(float(values[found[0]] if found else default))  # type: ignore[arg-type]
    for pattern in values:
        if not matching(pattern, joint_names):
            raise ConfigurationError(
                f"The pattern {pattern!r} matches none of the {kind}s {', '.join(joint_names)}."
                f"{did_you_mean(pattern, joint_names)}"
            )
    return chosen


def columns(values: torch.Tensor, ids: slice | torch.Tensor) -> torch.Tensor:
    """Return ``values[:, ids]``, or ``values`` itself if ``ids`` select everything."""
    return values if ids is ALL else values[:, ids]


def _joint_columns(model: mujoco.MjModel, joints: list[int]) -> tuple[list[int], list[int]]:
    qpos_ids: list[int] = []
    qvel_ids: list[int] = []
    for joint in joints:
        kind = int(model.jnt_type[joint])
        num_positions, num_velocities = {0: (7, 6), 1: (4, 3)}.get(kind, (1, 1))
        qpos_ids += range(model.jnt_qposadr[joint], model.jnt_qposadr[joint] + num_positions)
        qvel_ids += range(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + num_velocities)
    return qpos_ids, qvel_ids


def _drivers(model: mujoco.MjModel, ids: list[int], kind: str = "joint") -> list[int]:
    """Return the actuators of joints, tendons or sites, in the order of these."""
    is_of_kind = model.actuator_trntype == getattr(mujoco.mjtTrn, f"mjTRN_{kind.upper()}")
    driven = np.where(is_of_kind, model.actuator_trnid[:, 0], -1)
    return [int(i) for one in ids for i in np.flatnonzero(driven == one)]


def as_index(ids: list[int], size: int, device: torch.device) -> slice | torch.Tensor:
    """Return indices into an axis of ``size`` elements as a slice where they are contiguous."""
    if ids == list(range(size)):
        return ALL
    if not ids:
        return slice(0, 0)
    if ids == list(range(ids[0], ids[-1] + 1)):
        return slice(ids[0], ids[-1] + 1)
    return torch.tensor(ids, device=device)
