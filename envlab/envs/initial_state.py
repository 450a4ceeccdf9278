"""Where episodes start: the pose of the robot's root and its joints, as keyframe ``home``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from envlab.envs.entity_names import matching, prefixes_of
from envlab.errors import ConfigurationError, did_you_mean

HOME = "home"
"""The keyframe whose positions are the default state of a task."""

_FREE = mujoco.mjtJoint.mjJNT_FREE
_SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclass(kw_only=True)
class InitialStateCfg:
    """A pose, as Isaac Lab's ``init_state``. Joints without a value keep the file's."""

    pos: tuple[float, float, float] | None = None
    """Position of the robot's topmost body, in m."""
    rot: tuple[float, float, float, float] | None = None
    """Its orientation, (w, x, y, z)."""
    joint_pos: dict[str, float] = field(default_factory=dict)
    """Positions of hinges and slides in rad and m, by regular expressions that match in full."""


def robot_body(spec: mujoco.MjSpec) -> mujoco.MjsBody | None:
    """Return the robot's topmost body: ``robot``, else the first that moves freely, else the first.

    These are the rules of :class:`envlab.envs.SceneEntityCfg`. None if the world has no body. In
    a composed scene they choose among the bodies of the thing ``robot``, if there is one.
    """
    tops = list(spec.worldbody.bodies)
    prefix = prefixes_of(spec).get("robot", "")
    tops = [body for body in tops if body.name.startswith(prefix)] or tops
    named = [body for body in tops if body.name == "robot"]
    free = [body for body in tops if any(joint.type == _FREE for joint in body.joints)]
    return (named or free or tops or [None])[0]


def place_root(
    spec: mujoco.MjSpec, state: InitialStateCfg | None, where: str = "env.scene"
) -> None:
    """Move the robot's topmost body to its start pose; ``where`` names it in errors.

    Raises:
        ConfigurationError: If the model has no body to move, or the orientation is not valid.
    """
    if state is None or (state.pos is None and state.rot is None):
        return
    body = robot_body(spec)
    if body is None:
        raise ConfigurationError(f"{where}.init_state moves a body, but the model has none.")
    if state.pos is not None:
        body.pos = state.pos
    if state.rot is not None:
        norm = float(np.linalg.norm(state.rot))
        if abs(norm - 1.0) > 1e-3:
            raise ConfigurationError(
                f"{where}.init_state.rot is {list(state.rot)}, of length {norm:.4g}, but must be "
                "a quaternion (w, x, y, z) of length 1."
            )
        body.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
        body.quat = state.rot


def set_home(spec: mujoco.MjSpec, model: mujoco.MjModel, state: InitialStateCfg | None) -> None:
    """Make the keyframe ``home`` the start state, with the controls that hold it.

    Args:
        spec: The model; its keyframe is changed or made.
        model: The same, compiled.
        state: Changes to the file's keyframe or zero pose.

    Raises:
        ConfigurationError: For an expression that matches no joint.
    """
    key = spec.key(HOME)
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, HOME)
    qpos = np.array(model.qpos0 if index < 0 else model.key_qpos[index])
    ctrl = np.zeros(model.nu) if index < 0 else np.array(model.key_ctrl[index])
    if state is not None:
        _set_root(model, qpos, spec, state)
        place_joints(model, qpos, state, range(model.njnt))
    set_controls(model, qpos, ctrl)
    key = spec.add_key(name=HOME) if key is None else key
    key.qpos, key.ctrl = qpos, ctrl


def _set_root(
    model: mujoco.MjModel, qpos: np.ndarray, spec: mujoco.MjSpec, state: InitialStateCfg
) -> None:
    """Write the pose of a robot that moves freely; the model holds a fixed robot's."""
    body = robot_body(spec)
    free = [joint for joint in (body.joints if body else []) if joint.type == _FREE]
    if not free:
        return
    start = int(model.jnt_qposadr[free[0].id])
    if state.pos is not None:
        qpos[start : start + 3] = state.pos
    if state.rot is not None:
        qpos[start + 3 : start + 7] = state.rot


def place_joints(
    model: mujoco.MjModel,
    qpos: np.ndarray,
    state: InitialStateCfg,
    joints: Sequence[int],
    where: str = "env.scene",
) -> None:
    """Write the positions of hinges and slides.

    Args:
        model: The model.
        qpos: Positions, ``(nq,)``; they are changed.
        state: What to write.
        joints: Indices of the joints that are meant.
        where: Path of the configuration, for errors.

    Raises:
        ConfigurationError: For an expression that matches no joint.
    """
    joints = [joint for joint in joints if int(model.jnt_type[joint]) in _SCALAR]
    names = [model.joint(joint).name for joint in joints]
    for pattern, value in state.joint_pos.items():
        chosen = {*matching(pattern, names)}
        found = [joint for joint, name in zip(joints, names, strict=True) if name in chosen]
        if not found:
            raise ConfigurationError(
                f"{where}.init_state.joint_pos: no hinge or slide joint of the model matches "
                f"{pattern!r}; it has {', '.join(names) or 'none'}.{did_you_mean(pattern, names)}"
            )
        qpos[model.jnt_qposadr[found]] = value


def set_controls(model: mujoco.MjModel, qpos: np.ndarray, ctrl: np.ndarray) -> None:
    """Write the controls ``(nu,)`` of actuators that take positions, so that they hold ``qpos``."""
    for actuator in range(model.nactuator):
        if _takes_position(model, actuator):
            joint = int(model.actuator_trnid[actuator, 0])
            position = qpos[model.jnt_qposadr[joint]] * model.actuator_gear[actuator, 0]
            ctrl[model.actuator_ctrladr[actuator]] = position


def _takes_position(model: mujoco.MjModel, actuator: int) -> bool:
    """Return whether an actuator's control is the target position of a hinge or slide."""
    if model.actuator_trntype[actuator] != mujoco.mjtTrn.mjTRN_JOINT:
        return False
    if int(model.jnt_type[model.actuator_trnid[actuator, 0]]) not in _SCALAR:
        return False
    if model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_DCMOTOR:
        return bool(model.actuator_ctrlspec[actuator] & mujoco.mjtCtrlInput.mjINPUT_POS)
    gain, bias = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, 1]
    affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
    return bool(affine and gain > 0.0 and bias == -gain)
