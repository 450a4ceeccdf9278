"""Changes to a robot's file: a base that moves, a floor, a light, a sky; bodies without weight."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import mujoco
import numpy as np

from envlab.envs.initial_state import robot_body
from envlab.errors import ConfigurationError, did_you_mean

_FREE = mujoco.mjtJoint.mjJNT_FREE
_SLIDE = mujoco.mjtJoint.mjJNT_SLIDE
_VIEW = np.array([-1.5, -2.0, 0.8])
"""Direction from the robot's centre of mass to the camera."""
_DISTANCE = 1.6
"""Distance of the camera, in units of the robot's extent (about its diameter)."""


def set_floating_base(
    spec: mujoco.MjSpec,
    floating: Literal["auto", True, False],
    auto: bool | None,
    where: str = "env.scene",
) -> None:
    """Give the robot's topmost body a free joint, or remove it.

    Args:
        spec: The model; it is changed.
        floating: Whether it moves freely, or ``auto``.
        auto: Meaning of ``auto`` for this file; None: as the file has it.
        where: Path of the configuration, for errors.

    Raises:
        ConfigurationError: If there is no body that could be freed.
    """
    wanted = auto if floating == "auto" else floating
    if wanted is None:
        return
    body = robot_body(spec)
    if body is None:
        if wanted:
            raise ConfigurationError(
                f"{where}.floating_base is {floating}, but the model has no body that could move."
            )
        return
    free = [joint for joint in body.joints if joint.type == _FREE]
    if wanted and not free:
        if list(body.joints):
            raise ConfigurationError(
                f"{where}.floating_base is {floating}, but the body {body.name!r} is attached to "
                f"the world by the joint {body.joints[0].name!r}. Remove that joint from the file."
            )
        body.add_freejoint(name="root")
    for joint in [] if wanted else free:
        spec.delete(joint)


def needs_ground(spec: mujoco.MjSpec, compiled: Callable[[], mujoco.MjModel]) -> bool:
    """Return whether the world itself has no geom, and something moves freely or would fall.

    Args:
        spec: The model.
        compiled: Returns the same, compiled; only called if the uncompiled model does not give the
            answer.
    """
    if list(spec.worldbody.geoms):
        return False
    kinds = {joint.type for joint in spec.joints}
    return _FREE in kinds or (_SLIDE in kinds and _falls(compiled()))


def _falls(model: mujoco.MjModel) -> bool:
    """Return whether a slide without an end, a spring or an actuator leads downwards.

    Planar robots, such as a hopper, hang on the world by such joints in place of a free one.
    """
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    by_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    is_held = np.isin(np.arange(model.njnt), model.actuator_trnid[by_joint, 0])
    is_held |= (model.jnt_limited == 1) | (model.jnt_stiffness.reshape(model.njnt, -1) > 0).any(1)
    pull = np.abs(data.xaxis @ model.opt.gravity)  # along the joint, in m/s^2
    return bool(((model.jnt_type == _SLIDE) & ~is_held & (pull > 1e-6)).any())


def add_surroundings(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Add a floor at height 0, and a light and a camera if the file has none.

    Args:
        spec: The model; it is changed.
        model: The same, compiled, to find the robot.
    """
    body = robot_body(spec)
    body_id = -1 if body is None else body.id  # lost as soon as the model is changed
    _add_floor(spec)
    if not list(spec.lights):
        spec.worldbody.add_light(
            name="sun",
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            pos=[0.0, 0.0, 3.0],
            dir=[0.3, 0.4, -1.0],
            diffuse=[0.6, 0.6, 0.6],
        )
    if body is not None and not list(spec.cameras):
        _add_camera(body, body_id, model)


def add_sky(spec: mujoco.MjSpec) -> None:
    """Add a sky if the file has none, as pictures are black there otherwise. It is only visual."""
    skybox = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    if any(texture.type == skybox for texture in spec.textures):
        return
    spec.add_texture(
        name="envlab_sky",
        type=skybox,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.9, 0.94, 0.97],
        rgb2=[0.6, 0.7, 0.8],
        width=64,
        height=384,
    )


def _add_floor(spec: mujoco.MjSpec) -> None:
    spec.add_texture(
        name="envlab_floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.35, 0.4, 0.45],
        rgb2=[0.25, 0.3, 0.35],
        width=256,
        height=256,
    )
    material = spec.add_material(name="envlab_floor", texrepeat=[2.0, 2.0], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "envlab_floor"
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0.0, 0.0, 0.05],
        material="envlab_floor",
    )


def _add_camera(body: mujoco.MjsBody, body_id: int, model: mujoco.MjModel) -> None:
    """Add a camera that looks at the robot's centre of mass now, and follows it."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    offset = _DISTANCE * model.stat.extent * _VIEW / np.linalg.norm(_VIEW)
    right = np.cross(-offset, [0.0, 0.0, 1.0])
    up = np.cross(right, -offset)
    # Into the frame of the body that carries the camera.
    rotation = data.xmat[body_id].reshape(3, 3).T
    eye = rotation @ (data.subtree_com[body_id] + offset - data.xpos[body_id])
    body.add_camera(
        name="follow",
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
        pos=eye,
        xyaxes=[*(rotation @ right), *(rotation @ up)],
    )


def disable_gravity(spec: mujoco.MjSpec, patterns: Sequence[str], where: str = "env.scene") -> None:
    """Remove gravity from some bodies of a model, by MuJoCo's gravity compensation.

    Args:
        spec: The model; it is changed.
        patterns: The bodies, by regular expressions that match in full.
        where: Path of the configuration, for errors.

    Raises:
        ConfigurationError: For a pattern that matches none.
    """
    names = [body.name for body in spec.bodies if body.name != "world"]
    for pattern in patterns:
        found = [name for name in names if re.fullmatch(pattern, name)]
        if not found:
            raise ConfigurationError(
                f"{where}.disable_gravity: no body of the model matches {pattern!r}; it has "
                f"{', '.join(filter(None, names)) or 'none'}.{did_you_mean(pattern, names)}"
            )
        for name in found:
            spec.body(name).gravcomp = 1.0
