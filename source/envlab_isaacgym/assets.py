"""Assets of ``load_asset``: robots or objects, from which actors are made."""

from __future__ import annotations

import copy
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab_isaacgym.enums import DofDriveMode, DofType, JointType
from envlab_isaacgym.mjcf import read_mjcf
from envlab_isaacgym.parameters import (
    DOF_PROPERTIES,
    UNLIMITED,
    ActuatorProperties,
    AssetOptions,
    ForceSensorProperties,
    RigidBodyProperties,
    RigidShapeProperties,
    TendonProperties,
)
from envlab_isaacgym.urdf import Joint, read_urdf, read_xml
from envlab_isaacgym.values import Mat33, Transform, Vec3

_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_SLIDE = int(mujoco.mjtJoint.mjJNT_SLIDE)
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)
_THINNEST = 1e-4
"""Smallest half size in m: DexterousHands has tables without height, and flat meshes."""
_EMPTY_RANGE = 1e-3
"""Half width, in rad or m, of a joint's range 0..0, which MuJoCo treats as no range."""


@dataclass
class Actuator:
    """An actuator of an MJCF file: a motor, whose gear tasks read, or a drive of its joint."""

    name: str
    joint: str
    properties: ActuatorProperties
    mode: DofDriveMode
    """``DOF_MODE_NONE`` for a motor."""


@dataclass
class ForceSensor:
    """A force sensor on a body, in its own frame."""

    body: int
    pose: Transform
    properties: ForceSensorProperties


@dataclass(eq=False)
class Asset:
    """A specification of one robot or object, with its names and properties in Isaac Gym's order.

    Attributes:
        spec: One body under the world, without actuators; every joint and shape has a name.
        model: The same, compiled.
        joint_names: Joints except the root's, fixed ones included, in order of their children.
        dof_properties: Structured array of :data:`DOF_PROPERTIES`, ``(num_dofs,)``.
    """

    name: str
    spec: mujoco.MjSpec
    options: AssetOptions
    model: mujoco.MjModel
    is_floating: bool
    body_names: list[str]
    dof_names: list[str]
    joint_names: list[str]
    dof_properties: np.ndarray
    springs: np.ndarray
    shapes: list[RigidShapeProperties]
    bodies: list[RigidBodyProperties]
    actuators: list[Actuator] = field(default_factory=list)
    force_sensors: list[ForceSensor] = field(default_factory=list)

    def shape_range(self, body: int) -> tuple[int, int]:
        """Return the first shape of a body, and their number."""
        first = int(self.model.body_geomadr[body + 1])
        return max(first, 0), int(self.model.body_geomnum[body + 1])

    def tendon_properties(self) -> list[TendonProperties]:
        """Return stiffness and damping of each tendon."""
        return [
            TendonProperties(
                stiffness=float(np.ravel(tendon.stiffness)[0]),
                damping=float(np.ravel(tendon.damping)[0]),
            )
            for tendon in self.spec.tendons
        ]

    def dof_type(self, index: int) -> DofType:
        """Return the type of a degree of freedom."""
        kind = int(self.model.joint(self.dof_names[index]).type[0])
        return DofType.DOF_TRANSLATION if kind == _SLIDE else DofType.DOF_ROTATION

    def joint_type(self, index: int) -> JointType:
        """Return the type of a joint."""
        if self.joint_names[index] not in self.dof_names:
            return JointType.JOINT_FIXED
        moves = self.dof_type(self.dof_names.index(self.joint_names[index]))
        is_slide = moves == DofType.DOF_TRANSLATION
        return JointType.JOINT_PRISMATIC if is_slide else JointType.JOINT_REVOLUTE


def load_asset(folder: str, name: str, options: AssetOptions | None) -> Asset:
    """Read a URDF or MJCF file.

    Raises:
        ConfigurationError: If it is missing, neither of the two, or cannot be simulated.
    """
    options = copy.deepcopy(options or AssetOptions())
    path = Path(folder or ".") / name
    try:
        tag = read_xml(path).tag
    except OSError as error:
        raise ConfigurationError(f"load_asset: {path} cannot be read: {error.strerror}.") from error
    except ET.ParseError as error:
        raise ConfigurationError(f"load_asset: {path} is not XML: {error}.") from error
    if tag == "robot":
        spec, joints = read_urdf(path, options)
        return make_asset(path.name, spec, options, joints)
    if tag == "mujoco":
        return make_asset(path.name, read_mjcf(path, options), options)
    raise ConfigurationError(
        f"load_asset: {path} begins with <{tag}>, but must be a URDF (<robot>) or an MJCF "
        "(<mujoco>)."
    )


def make_asset(
    name: str,
    spec: mujoco.MjSpec,
    options: AssetOptions,
    urdf_joints: list[Joint] | None = None,
) -> Asset:
    """Return an asset of a specification with one body under the world.

    Raises:
        ConfigurationError: If MuJoCo cannot compile it.
    """
    actuators = _take_actuators(spec)
    _name_all(spec)
    for joint in spec.joints:
        if joint.limited == 1 and joint.range[0] >= joint.range[1]:
            joint.range = [joint.range[0] - _EMPTY_RANGE, joint.range[0] + _EMPTY_RANGE]
    try:
        model = _compiled(spec)
    except ValueError as error:
        raise ConfigurationError(f"MuJoCo cannot simulate {name}: {error}") from error
    kinds = np.asarray(model.jnt_type)
    unread = [model.joint(i).name for i in range(model.njnt) if kinds[i] not in _READ]
    if unread:
        raise ConfigurationError(
            f"{name} has the ball joint {unread[0]!r}, but only hinges, slides and a floating root "
            "can be simulated."
        )
    dofs = [i for i in range(model.njnt) if kinds[i] != _FREE]
    dof_names = [model.joint(i).name for i in dofs]
    by_name = {joint.name: joint for joint in urdf_joints or ()}
    dof_properties = _dof_properties(model, dofs, by_name, options)
    _set_drives(dof_properties, dof_names, actuators, options.default_dof_drive_mode)
    return Asset(
        name=name,
        spec=spec,
        options=options,
        model=model,
        is_floating=bool((kinds == _FREE).any()),
        body_names=[model.body(i).name for i in range(1, model.nbody)],
        dof_names=dof_names,
        joint_names=[joint.name for joint in urdf_joints]
        if urdf_joints is not None
        else _joint_names(model),
        dof_properties=dof_properties,
        springs=np.array([model.qpos_spring[model.jnt_qposadr[i]] for i in dofs]),
        shapes=[
            RigidShapeProperties(friction=float(friction[0])) for friction in model.geom_friction
        ],
        bodies=[_body_properties(model, i) for i in range(1, model.nbody)],
        actuators=actuators,
    )


def _compiled(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Return a model; flat meshes, which have no hull, become plates in the specification."""
    while True:
        try:
            return spec.copy().compile()
        except ValueError as error:
            flat = re.search(r"mesh '(.*)' has coplanar vertices", str(error))
            if flat is None:
                raise
            _thicken(spec, spec.mesh(flat[1]))


def _thicken(spec: mujoco.MjSpec, mesh: mujoco.MjsMesh) -> None:
    alone = mujoco.MjSpec()
    alone.meshdir, alone.modelfiledir = spec.meshdir, spec.modelfiledir
    kind = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    alone.add_mesh(name="mesh", file=mesh.file, scale=mesh.scale, inertia=kind)
    shown = {"contype": 0, "conaffinity": 0}  # visual geoms need no hull
    alone.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh", **shown)
    model = alone.compile()
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.mesh_quat[0])
    points = model.mesh_vert @ turn.reshape(3, 3).T + model.mesh_pos[0]
    normal = np.linalg.svd(points - points.mean(axis=0))[2][2]
    plate = np.concatenate((points + _THINNEST * normal, points - _THINNEST * normal))
    mesh.file, mesh.scale, mesh.uservert = "", [1, 1, 1], plate.ravel()


_READ = (_FREE, _HINGE, _SLIDE)


def make_primitive(name: str, kind: str, size: list[float], options: AssetOptions | None) -> Asset:
    """Return a box, sphere or capsule, for ``create_box`` and similar methods."""
    options = copy.deepcopy(options or AssetOptions())
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name=name)
    size = [max(one, _THINNEST) for one in size]
    body.add_geom(
        type=getattr(mujoco.mjtGeom, f"mjGEOM_{kind}"), size=size, density=options.density
    )
    if not options.fix_base_link:
        body.add_freejoint()
    return make_asset(name, spec, options)


def _take_actuators(spec: mujoco.MjSpec) -> list[Actuator]:
    taken = []
    for actuator in list(spec.actuators):
        limits, forces = actuator.ctrlrange, actuator.forcerange
        mode, kp, kv = _drive(actuator)
        properties = ActuatorProperties(
            kp=kp,
            kv=kv,
            motor_effort=float(actuator.gear[0]),
            control_limited=limits[0] < limits[1],
            lower_control_limit=float(limits[0]),
            upper_control_limit=float(limits[1]),
            force_limited=forces[0] < forces[1],
            lower_force_limit=float(forces[0]),
            upper_force_limit=float(forces[1]),
        )
        taken.append(Actuator(actuator.name, actuator.target, properties, mode))
        spec.delete(actuator)
    return taken


def _drive(actuator: mujoco.MjsActuator) -> tuple[DofDriveMode, float, float]:
    """Return the mode, stiffness and damping of an actuator on a joint."""
    gear, gain, bias = float(actuator.gear[0]), actuator.gainprm[0], actuator.biasprm
    is_affine = actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE
    if actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT and is_affine and gain > 0.0:
        if bias[1] == -gain:
            return DofDriveMode.DOF_MODE_POS, gain * gear**2, float(-bias[2]) * gear**2
        if bias[1] == 0.0 and bias[2] == -gain:
            return DofDriveMode.DOF_MODE_VEL, 0.0, gain * gear**2
    return DofDriveMode.DOF_MODE_NONE, 0.0, 0.0


def _set_drives(
    properties: np.ndarray, dof_names: list[str], actuators: list[Actuator], default: int
) -> None:
    """Give joints the drives of an MJCF file; a mode that the options ask for has precedence."""
    for actuator in actuators:
        if actuator.mode == DofDriveMode.DOF_MODE_NONE or actuator.joint not in dof_names:
            continue
        row = dof_names.index(actuator.joint)
        values, own = properties[row : row + 1], actuator.properties
        if default == DofDriveMode.DOF_MODE_NONE:
            values["driveMode"] = actuator.mode
        values["stiffness"] = own.kp
        values["damping"] += own.kv
        if own.force_limited:
            values["effort"] = max(-own.lower_force_limit, own.upper_force_limit)


def _name_all(spec: mujoco.MjSpec) -> None:
    """Name unnamed parts, since parts are found by name after they are joined."""
    for kind in ("bodies", "joints", "geoms", "tendons"):
        for number, element in enumerate(getattr(spec, kind)):
            if not element.name:
                element.name = f"{kind}_{number}"


def _joint_names(model: mujoco.MjModel) -> list[str]:
    names = []
    for body in range(1, model.nbody):
        joints = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
        moving = [model.joint(j).name for j in joints if model.jnt_type[j] != _FREE]
        names += moving or ([model.body(body).name] if body > 1 else [])
    return names


def _dof_properties(
    model: mujoco.MjModel, joints: list[int], urdf: dict[str, Joint], options: AssetOptions
) -> np.ndarray:
    properties = np.zeros(len(joints), DOF_PROPERTIES)
    properties["driveMode"] = options.default_dof_drive_mode
    properties["lower"], properties["upper"] = -UNLIMITED, UNLIMITED
    properties["velocity"] = properties["effort"] = UNLIMITED
    for row, index in enumerate(joints):
        values = properties[row : row + 1]
        dof, given = model.jnt_dofadr[index], urdf.get(model.joint(index).name)
        values["armature"] = options.armature + model.dof_armature[dof]
        if given is None:
            values["stiffness"] = model.jnt_stiffness[index]
            values["damping"] = model.dof_damping[dof]
            values["friction"] = model.dof_frictionloss[dof]
            if model.jnt_limited[index]:
                values["hasLimits"] = True
                values["lower"], values["upper"] = model.jnt_range[index]
        else:
            for name in ("lower", "upper", "velocity", "effort", "damping", "friction"):
                values[name] = getattr(given, name)
            values["hasLimits"] = given.has_limits
    return properties


def _body_properties(model: mujoco.MjModel, body: int) -> RigidBodyProperties:
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, model.body_iquat[body])
    rotation = flat.reshape(3, 3)
    inertia = rotation @ np.diag(model.body_inertia[body]) @ rotation.T
    mass = float(model.body_mass[body])
    return RigidBodyProperties(
        mass=mass,
        invMass=1.0 / max(mass, 1e-9),
        com=Vec3(*model.body_ipos[body]),
        inertia=Mat33(*(Vec3(*row) for row in inertia)),
        invInertia=Mat33(*(Vec3(*row) for row in np.linalg.pinv(inertia))),
    )
