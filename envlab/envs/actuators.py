"""Actuator models for named joints, with Isaac Lab's names, realised as MuJoCo actuators.

They live in the compiled model, so that a control step stays one call on both backends: a torque
law is evaluated at every physics step, torque-speed limits are MuJoCo's DC motor, delays its
history buffers. The gains decide what a control means: a target position with a stiffness, a
target velocity with damping alone, else an effort.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mujoco
import torch

from envlab.config import NonNegativeInt
from envlab.envs.entity_names import matching, prefixes_of
from envlab.errors import ConfigurationError, did_you_mean

PerJoint = float | dict[str, float] | None
"""One value for all joints of a group, or values by regular expression, or null."""

_SCALAR = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_JOINT = mujoco.mjtTrn.mjTRN_JOINT


@dataclass(kw_only=True)
class ActuatorCfg:
    """Settings that all actuator models share. Use one of the classes below."""

    joint_names_expr: list[str] | None = None
    """Hinge and slide joints, by regular expressions that match in full; null: the name of the
    group is the expression."""
    stiffness: PerJoint = 0.0
    """Effort per position error, N m/rad or N/m."""
    damping: PerJoint = 0.0
    """Effort per velocity error, N m s/rad or N s/m."""
    effort_limit: PerJoint = None
    """Largest effort, N m or N; null: only the limit that the file gives the joint, if any."""
    armature: PerJoint = None
    """Rotor inertia seen at the joint, kg m^2 or kg; null: the file's."""
    friction: PerJoint = None
    """Dry friction of the joint, N m or N (MuJoCo's frictionloss); null: the file's."""


@dataclass(kw_only=True)
class ImplicitActuatorCfg(ActuatorCfg):
    """PD control that the integrator treats implicitly in its velocity (``implicitfast``)."""

    kind: Literal["implicit"] = "implicit"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class IdealPDActuatorCfg(ActuatorCfg):
    """PD control ``stiffness * (target - position) - damping * velocity``, cut at the limit.

    The same actuator as :class:`ImplicitActuatorCfg`: MuJoCo evaluates both at every physics step.
    With ``integrator="Euler"`` in the file it is explicit.
    """

    in_torch: bool = False
    """Whether torch computes it in each physics step, and not MuJoCo: slower, and alike."""
    kind: Literal["ideal_pd"] = "ideal_pd"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class DelayedPDActuatorCfg(ActuatorCfg):
    """The ideal PD with targets that are late by some physics steps.

    The delay is drawn per environment at each reset. Until the first target arrives, the joints
    are held in the default pose; Isaac Lab has the first target act at once.
    """

    min_delay: int
    """Smallest delay, in physics steps."""
    max_delay: int
    """Largest delay, in physics steps."""
    in_torch: bool = False
    """Whether torch computes it in each physics step, and not MuJoCo: slower, and alike."""
    kind: Literal["delayed_pd"] = "delayed_pd"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class DCMotorCfg(ActuatorCfg):
    """The ideal PD behind the torque-speed line of a DC motor.

    At velocity v, the effort is within ``saturation_effort * (+-1 - v / velocity_limit)``, in
    all four quadrants, and within ``effort_limit``.
    """

    saturation_effort: float
    """Effort at standstill, N m or N."""
    velocity_limit: float
    """Velocity at which no effort is left, rad/s or m/s."""
    min_delay: int = 0
    """Smallest delay of targets, in physics steps."""
    max_delay: int = 0
    """Largest delay of targets, in physics steps."""
    in_torch: bool = False
    """Whether torch computes it in each physics step, and not MuJoCo: slower, and alike."""
    kind: Literal["dc_motor"] = "dc_motor"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class RemotizedPDActuatorCfg(ActuatorCfg):
    """The ideal PD, with a limit that depends on the joint's angle; computed in torch.

    Isaac Lab 2.3.2's, for knees that a linkage drives.
    """

    joint_parameter_lookup: list[list[float]]
    """Rows of angle in rad, transmission ratio, and largest effort in N m, by ascending angle."""
    min_delay: int = 0
    """Smallest delay of targets, in physics steps."""
    max_delay: int = 0
    """Largest delay of targets, in physics steps."""
    kind: Literal["remotized_pd"] = "remotized_pd"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class ActuatorNetMLPCfg(ActuatorCfg):
    """A network from past errors and velocities to efforts, in TorchScript; computed in torch.

    Hwangbo et al., "Learning agile and dynamic motor skills for legged robots" (2019), with Isaac
    Lab 2.3.2's names. Limits are those of a :class:`DCMotorCfg`.
    """

    network_file: str
    """TorchScript file: a path, or ``package:path/inside/it.pt``. It maps
    ``(num_envs * num_joints, 2 * len(input_idx))`` to ``(..., 1)``."""
    pos_scale: float = 1.0
    """Factor of position errors, target minus position."""
    vel_scale: float = 1.0
    """Factor of velocities."""
    torque_scale: float = 1.0
    """Factor of the network's output, in N m."""
    input_order: Literal["pos_vel", "vel_pos"] = "pos_vel"
    """Which inputs come first."""
    input_idx: tuple[NonNegativeInt, ...] = (0, 2, 4)
    """Ages of the inputs, in physics steps; 0: the current one."""
    saturation_effort: float
    """Effort at standstill, N m."""
    velocity_limit: float
    """Velocity at which no effort is left, rad/s."""
    kind: Literal["net_mlp"] = "net_mlp"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class ActuatorNetLSTMCfg(ActuatorCfg):
    """A recurrent network from errors and velocities to efforts, in TorchScript.

    Rudin et al., "Learning to walk in minutes using massively parallel deep reinforcement learning"
    (2022), with Isaac Lab 2.3.2's names. Limits are those of a :class:`DCMotorCfg`.
    """

    network_file: str
    """TorchScript file with a part ``lstm``: ``network(inputs, (hidden, cell))`` maps inputs
    ``(num_envs * num_joints, 1, 2)`` to efforts and the next memories."""
    saturation_effort: float
    """Effort at standstill, N m."""
    velocity_limit: float
    """Velocity at which no effort is left, rad/s."""
    kind: Literal["net_lstm"] = "net_lstm"
    """Distinguishes the classes in files."""


@dataclass(kw_only=True)
class ActuatorFunctionCfg(ActuatorCfg):
    """A custom law, in torch, evaluated in each physics step."""

    func: Callable[..., torch.Tensor]
    """``func(targets, positions, velocities, **params)``, each ``(num_envs, num_joints)``, returns
    efforts; or its ``module:name``. With ``history_length``, errors and velocities of the last
    physics steps follow, ``(num_envs, history_length, num_joints)``, the latest first."""
    params: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments."""
    history_length: NonNegativeInt = 0
    """Number of physics steps that are remembered."""
    min_delay: int = 0
    """Smallest delay of targets, in physics steps."""
    max_delay: int = 0
    """Largest delay of targets, in physics steps."""
    kind: Literal["function"] = "function"
    """Distinguishes the classes in files."""


AnyActuatorCfg = (
    ImplicitActuatorCfg
    | IdealPDActuatorCfg
    | DelayedPDActuatorCfg
    | DCMotorCfg
    | RemotizedPDActuatorCfg
    | ActuatorNetMLPCfg
    | ActuatorNetLSTMCfg
    | ActuatorFunctionCfg
)
_ONLY_IN_TORCH = (
    RemotizedPDActuatorCfg,
    ActuatorNetMLPCfg,
    ActuatorNetLSTMCfg,
    ActuatorFunctionCfg,
)


def is_in_torch(cfg: ActuatorCfg) -> bool:
    """Return whether a model is computed in torch, see :mod:`envlab.envs.torch_actuators`."""
    return isinstance(cfg, _ONLY_IN_TORCH) or bool(getattr(cfg, "in_torch", False))


def apply_actuators(
    spec: mujoco.MjSpec,
    actuators: Mapping[str, AnyActuatorCfg],
    dt: float,
    where: str = "env.scene",
) -> None:
    """Give the named joints the actuators of ``actuators``, replacing their own.

    Args:
        spec: The model; it is changed.
        actuators: Actuator models by the name of their group.
        dt: Physics time step in seconds, of which delays are multiples.
        where: Path of the configuration, for errors.

    Raises:
        ConfigurationError: For names that match no joint, or one twice, and for wrong values.
    """
    owners: dict[str, str] = {}
    for group, cfg in actuators.items():
        path = f"{where}.actuators.{group}"
        _check(cfg, path)
        joints = group_joints(spec, group, cfg, path)
        for joint in joints:
            if joint.name in owners:
                raise ConfigurationError(
                    f"{path} names the joint {joint.name!r}, which {where}.actuators."
                    f"{owners[joint.name]} has already. Give each joint one actuator."
                )
            owners[joint.name] = group
        armature = _values(f"{path}.armature", cfg.armature, joints)
        friction = _values(f"{path}.friction", cfg.friction, joints)
        settings = {
            name: _values(f"{path}.{name}", getattr(cfg, name), joints)
            for name in ("stiffness", "damping", "effort_limit")
        }
        for joint in joints:
            if joint.name in armature:
                joint.armature = armature[joint.name]
            if joint.name in friction:
                joint.frictionloss = friction[joint.name]
            values = {name: by_joint.get(joint.name) for name, by_joint in settings.items()}
            _realise(_actuator_of(spec, joint), cfg, dt, **values)


def group_joints(
    spec: mujoco.MjSpec, group: str, cfg: ActuatorCfg, path: str
) -> list[mujoco.MjsJoint]:
    """Return the hinges and slides of a group at ``path``, in the model's order.

    Raises:
        ConfigurationError: For an expression that matches none.
    """
    joints = [joint for joint in spec.joints if joint.type in _SCALAR]
    names = [joint.name for joint in joints]
    matched = set()
    for pattern in [group] if cfg.joint_names_expr is None else cfg.joint_names_expr:
        found = {name for name in names if re.fullmatch(pattern, name)}
        if not found:
            raise ConfigurationError(
                f"{path}: no hinge or slide joint of the model matches "
                f"{pattern!r}; it has {', '.join(names) or 'none'}.{did_you_mean(pattern, names)}"
            )
        matched |= found
    return [joint for joint in joints if joint.name in matched]


def delay_range(cfg: ActuatorCfg) -> tuple[int, int]:
    """Return the smallest and largest delay of an actuator model, in physics steps."""
    return getattr(cfg, "min_delay", 0), getattr(cfg, "max_delay", 0)


def delay_seconds(steps: int, dt: float) -> float:
    """Return the value of ``actuator_delay`` for a delay of ``steps`` physics steps.

    MuJoCo takes the newest sample at or before the requested time. Half a step less than the
    delay selects the right sample whatever the rounding: ``mujoco_warp`` counts in float32.
    """
    return (steps - 0.5) * dt if steps else 0.0


def _actuator_of(spec: mujoco.MjSpec, joint: mujoco.MjsJoint) -> mujoco.MjsActuator:
    """Return a joint's only actuator: its first one, with its name, or a new one.

    Any others are removed.
    """
    found = [a for a in spec.actuators if a.target == joint.name and a.trntype == _JOINT]
    for other in found[1:]:
        spec.delete(other)
    if found:
        return found[0]
    for key in spec.keys:
        if len(key.ctrl):
            key.ctrl = [*key.ctrl, 0.0]
    return spec.add_actuator(name=joint.name, target=joint.name, trntype=_JOINT)


def _realise(
    actuator: mujoco.MjsActuator,
    cfg: AnyActuatorCfg,
    dt: float,
    stiffness: float | None,
    damping: float | None,
    effort_limit: float | None,
) -> None:
    """Make a MuJoCo actuator follow a model."""
    kp, kd = stiffness or 0.0, damping or 0.0
    if is_in_torch(cfg):  # then all that MuJoCo knows is the effort
        kp = kd = 0.0
    actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    actuator.dyntype = mujoco.mjtDyn.mjDYN_NONE
    actuator.dynprm, actuator.gainprm, actuator.biasprm = [0.0] * 10, [0.0] * 10, [0.0] * 10
    actuator.ctrllimited = actuator.actlimited = False
    actuator.ctrlrange = actuator.actrange = [0.0, 0.0]
    actuator.damping, actuator.armature = [0.0, 0.0, 0.0], 0.0
    actuator.forcelimited = effort_limit is not None
    actuator.forcerange = [0.0, 0.0] if effort_limit is None else [-effort_limit, effort_limit]
    inputs = mujoco.mjtCtrlInput
    if isinstance(cfg, DCMotorCfg) and not is_in_torch(cfg):
        signal = inputs.mjINPUT_POS if kp else inputs.mjINPUT_VEL if kd else inputs.mjINPUT_FF
        # A motor for 1 V: voltage and speed are then fractions of their maximum.
        actuator.set_to_dcmotor(
            motorconst=[0.0, 0.0],
            resistance=0.0,
            nominal=[1.0, cfg.saturation_effort, cfg.velocity_limit],
            saturation=[effort_limit or 0.0, 0.0, 0.0],
            controller=[kp, 0.0, kd, 0.0, 0.0, 1.0],
            ctrlspec=int(signal),
        )
    elif kp:
        actuator.set_to_position(kp=kp, kv=kd)
    elif kd:
        actuator.set_to_velocity(kv=kd)
    else:
        actuator.set_to_motor()
        if is_in_torch(cfg):  # MuJoCo ignores them; what changes the model's gains changes these
            actuator.biasprm = [0.0, -(stiffness or 0.0), -(damping or 0.0), *[0.0] * 7]
    low, high = (0, 0) if is_in_torch(cfg) else delay_range(cfg)
    actuator.nsample, actuator.delay = high, delay_seconds(high if low == high else low, dt)
    actuator.interp = 0


def _values(path: str, setting: PerJoint, joints: list[mujoco.MjsJoint]) -> dict[str, float]:
    return joint_values(path, setting, [joint.name for joint in joints])


def joint_values(path: str, setting: PerJoint, names: Sequence[str]) -> dict[str, float]:
    """Return a setting by joint name, without the joints that have none.

    Raises:
        ConfigurationError: For an expression that matches no joint of the group.
    """
    if setting is None:
        return {}
    if not isinstance(setting, dict):
        return dict.fromkeys(names, float(setting))
    values: dict[str, float] = {}
    for pattern, value in setting.items():
        found = matching(pattern, names)
        if not found:
            raise ConfigurationError(
                f"{path} names {pattern!r}, which matches no joint of its group: "
                f"{', '.join(names)}.{did_you_mean(pattern, names)}"
            )
        values |= dict.fromkeys(found, float(value))
    return values


def _check(cfg: AnyActuatorCfg, path: str) -> None:
    """Refuse values that are invalid for an actuator."""
    for name in ("stiffness", "damping", "armature", "friction", "effort_limit"):
        setting = getattr(cfg, name)
        for value in setting.values() if isinstance(setting, dict) else [setting]:
            if value is not None and not value >= 0.0:
                raise ConfigurationError(f"{path}.{name} is {value}, but must not be negative.")
    for name in ("saturation_effort", "velocity_limit"):
        if not getattr(cfg, name, 1.0) > 0.0:
            raise ConfigurationError(
                f"{path}.{name} is {getattr(cfg, name)}, but must be greater than 0."
            )
    low, high = delay_range(cfg)
    if not 0 <= low <= high:
        raise ConfigurationError(
            f"{path} has min_delay {low} and max_delay {high}, but needs 0 <= min_delay <= "
            "max_delay, in physics steps."
        )


def group_actuators(model: mujoco.MjModel, group: str, cfg: ActuatorCfg) -> list[int]:
    """Return the actuators of a group in the compiled model; ``robot/legs`` is a thing's group."""
    thing, _, own = group.partition("/")
    prefix = prefixes_of(model).get(thing, "") if own else ""
    patterns = [own or group] if cfg.joint_names_expr is None else cfg.joint_names_expr
    joints = {
        i: model.joint(int(model.actuator_trnid[i, 0])).name
        for i in range(model.nactuator)
        if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    }
    return [
        i
        for i, name in joints.items()
        if name.startswith(prefix)
        and any(re.fullmatch(one, name.removeprefix(prefix)) for one in patterns)
    ]
