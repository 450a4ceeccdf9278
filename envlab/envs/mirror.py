"""Mirror images of a robot's observations and actions, left and right exchanged.

The mirror is the plane y = 0 of the robot's root. It is derived from the model: in the model's
reference pose, each joint's mirror image is the joint at the mirrored place, and the mirrored axis
decides whether it turns the same way. Names play no part: those of Ant's legs do not say where they
are. A reflection M = diag(1, -1, 1) takes vectors v to M v, and pseudovectors, such as
angular velocities, to -M v.

The images of envlab's own observation terms are known; a task declares the images of other terms by
:func:`mirrored`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import mujoco
import numpy as np
import torch

from envlab.envs import mdp
from envlab.envs.batched_env import BatchedEnv
from envlab.envs.entities import SceneEntity
from envlab.envs.manager_env import ManagerEnv
from envlab.envs.managers import ObservationTermCfg
from envlab.envs.ray_caster import RayCaster, RayCasterCfg
from envlab.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])

TOLERANCE = 5e-3
"""Largest distance of a joint, in m or of a unit axis, from the mirror image of its partner."""
VECTOR, TURN = (1.0, -1.0, 1.0), (-1.0, 1.0, -1.0)
"""Signs of the components of vectors and pseudovectors in the mirror."""

_SIGNS: dict[Any, tuple[float, ...]] = {
    mdp.base_pos_z: (1.0,),
    mdp.base_lin_vel: VECTOR,
    mdp.base_ang_vel: TURN,
    mdp.root_ang_vel_w: TURN,  # in the world's axes, whose mirror is also the plane y = 0
    mdp.projected_gravity: VECTOR,
    mdp.current_time_s: (1.0,),
    mdp.remaining_time_s: (1.0,),
}
_OF_JOINTS = (
    *(mdp.joint_pos, mdp.joint_pos_rel, mdp.joint_pos_limit_normalized),
    *(mdp.joint_vel, mdp.joint_vel_rel, mdp.joint_effort, mdp.actuator_force),
)
_OF_FEET: dict[Any, tuple[float, ...]] = {
    mdp.foot_height: (1.0,),
    mdp.foot_air_time: (1.0,),
    mdp.foot_contact: (1.0,),
    mdp.foot_contact_forces: VECTOR,  # in the world's axes
}
"""Signs of each foot's columns."""
_SENSOR = mujoco.mjtSensor
_VECTOR_SENSORS = {
    int(_SENSOR.mjSENS_FORCE): VECTOR,
    int(_SENSOR.mjSENS_TORQUE): TURN,
    int(_SENSOR.mjSENS_ACCELEROMETER): VECTOR,
    int(_SENSOR.mjSENS_VELOCIMETER): VECTOR,
    int(_SENSOR.mjSENS_GYRO): TURN,
    int(_SENSOR.mjSENS_FRAMELINVEL): VECTOR,
}
"""Sensors of a site, in its frame; the last one, of a site's motion, in the world's."""


def mirrored(*signs: float) -> Callable[[Function], Function]:
    """Declare that an observation term's columns keep their places in a mirror.

    Args:
        signs: 1 for each column that stays as it is, -1 for each that changes its sign.
    """

    def mark(function: Function) -> Function:
        function.mirror_signs = signs  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class Reflection:
    """A signed permutation of columns: column i of the image is ``signs[i]`` times ``places[i]``.

    Raises:
        ConfigurationError: If it does not square to the identity.
    """

    places: list[int]
    signs: list[float]

    def __post_init__(self) -> None:
        for place, (other, sign) in enumerate(zip(self.places, self.signs, strict=True)):
            if self.places[other] != place or self.signs[other] * sign != 1.0:
                raise ConfigurationError(
                    f"The mirror does not square to the identity: column {place} comes from column "
                    f"{other} times {sign:g}, which comes from column {self.places[other]} times "
                    f"{self.signs[other]:g}. Correct the signs, or exchange both."
                )

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mirror image of values, ``(..., num_columns)``."""
        places = torch.tensor(self.places, device=values.device)
        return values[..., places] * torch.tensor(self.signs, device=values.device)

    @classmethod
    def joined(cls, parts: list[Reflection]) -> Reflection:
        """Return the reflection of columns placed side by side."""
        places: list[int] = []
        signs: list[float] = []
        for part in parts:
            places += [len(signs) + place for place in part.places]
            signs += part.signs
        return cls(places, signs)


def in_place(*signs: float) -> Reflection:
    """Return the reflection of columns that keep their places."""
    return Reflection(list(range(len(signs))), list(signs))


class Mirror:
    """The mirror of a manager-based environment.

    Attributes:
        obs: Reflections by observation group.
        actions: The reflection of actions.
    """

    def __init__(self, env: BatchedEnv) -> None:
        """Derive the mirror from the environment's model and terms.

        Raises:
            ConfigurationError: If the robot is not symmetric, or a term's image is unknown.
        """
        if not isinstance(env, ManagerEnv):
            raise ConfigurationError(
                f"{type(env).__name__} is not manager-based, so that the mirror image of its "
                "observations is unknown. Leave the symmetry out."
            )
        self._env = env
        self._joints = _joint_partners(env)
        self.actions = self._of_actions()
        self.obs: Mapping[str, Reflection] = {
            group: Reflection.joined(
                [
                    self._of_observed(group, name, cfg, function)
                    for name, (cfg, function) in env.observation_manager.terms(group).items()
                ]
            )
            for group in env.observation_manager.active_terms
        }

    def joints(self, names: list[str]) -> Reflection:
        """Return the reflection of one value for each of the named joints.

        Raises:
            ConfigurationError: If a joint's mirror image is not among them.
        """
        for name in names:
            if self._joints[name][0] not in names:
                raise ConfigurationError(
                    f"The joint {name!r} has the mirror image {self._joints[name][0]!r}, which is "
                    f"not among {', '.join(names)}. Select both, or neither."
                )
        partners = [self._joints[name] for name in names]
        return Reflection([names.index(other) for other, _ in partners], [s for _, s in partners])

    def _of_actions(self) -> Reflection:
        parts = []
        for name, facts in self._env.action_manager.describe().items():
            if facts is None:
                raise ConfigurationError(
                    f"The mirror image of the action {name!r} is unknown, because it does not "
                    "write controls of joints alone. Leave the symmetry out."
                )
            part = self.joints(facts["joint_names"])
            _check_symmetric(f"scale of the action {name!r}", part, facts["scale"], signed=False)
            _check_symmetric(f"offset of the action {name!r}", part, facts["offset"])
            if facts["clip"] is not None:
                low, high = (np.broadcast_to(ends, len(part.signs)) for ends in facts["clip"])
                what = f"bounds of the action {name!r}"
                _check_symmetric(what, part, (0.5 * (low + high)).tolist())
                _check_symmetric(what, part, (high - low).tolist(), signed=False)
            parts.append(part)
        return Reflection.joined(parts)

    def _of_observed(
        self, group: str, name: str, cfg: ObservationTermCfg, function: Any
    ) -> Reflection:
        """Return the reflection of a term as it is observed: of each value of its history."""
        where = f"the observation term {name!r} of the group {group!r}"
        if cfg.modifiers:
            raise ConfigurationError(
                f"{where.capitalize()} has modifiers, whose mirror image is unknown. Leave the "
                "symmetry out."
            )
        part = self._of_term(group, name, function)
        if isinstance(cfg.scale, tuple | list):
            _check_symmetric(f"scale of {where}", part, list(cfg.scale), signed=False)
        if cfg.history_length and not cfg.flatten_history_dim:
            raise ConfigurationError(
                f"{where.capitalize()} keeps its history in a separate dimension, which has no "
                "mirror image. Join it by flatten_history_dim=true, or leave the symmetry out."
            )
        return Reflection.joined([part] * max(1, cfg.history_length))

    def _of_term(self, group: str, name: str, function: Any) -> Reflection:
        """Return the reflection of a term, a function with its parameters filled in."""
        func, params = function.func, function.keywords
        signs = _SIGNS.get(func) or getattr(func, "mirror_signs", None)
        if signs is not None:
            return in_place(*signs)
        if func in _OF_JOINTS:
            return self.joints(params["asset_cfg"].joint_names)
        if func in _OF_FEET:
            feet = params["feet_cfg" if "feet_cfg" in params else "sensor_cfg"]
            return _of_bodies(self._env.sim.model, feet.body_names, _OF_FEET[func])
        if func is mdp.last_action:
            return self.actions
        if func is mdp.height_scan and isinstance(params["sensor_cfg"], RayCaster):
            return _of_grid(params["sensor_cfg"].cfg)
        if func is mdp.sensor:
            return _of_sensors(self._env.sim.model, params["asset_cfg"])
        if func is mdp.generated_commands:
            command = self._env.command_manager.get_term(params["command_name"])
            if command.mirror is not None:
                places, signs = command.mirror
                return Reflection(list(places), list(signs))
        raise ConfigurationError(
            f"The mirror image of the observation term {name!r} of the group {group!r} "
            f"({func.__name__}) is unknown. Declare it by envlab.envs.mirror.mirrored on the "
            "function, or leave the symmetry out."
        )


def _joint_partners(env: ManagerEnv) -> dict[str, tuple[str, float]]:
    """Return each joint's mirror image and the sign of its mirrored angle, by name.

    Raises:
        ConfigurationError: If a joint has none, or the default pose is not symmetric.
    """
    model = env.sim.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    free = mujoco.mjtJoint.mjJNT_FREE
    ids = [joint for joint in range(model.njnt) if model.jnt_type[joint] != free]
    found = {joint: _partner(model, data, joint, ids) for joint in ids}
    names = [model.joint(joint).name for joint in ids]
    partners = {
        model.joint(joint).name: (model.joint(other).name, sign)
        for joint, (other, sign) in found.items()
    }
    default = env.default_qpos[0].tolist()
    reflection = Reflection(
        [names.index(partners[name][0]) for name in names], [partners[name][1] for name in names]
    )
    columns = [int(model.jnt_qposadr[joint]) for joint in ids]
    _check_symmetric("default joint positions", reflection, [default[i] for i in columns])
    _check_symmetric("reference pose", reflection, model.qpos0[columns].tolist())
    ranges = model.jnt_range[ids]
    _check_symmetric("joint limits", reflection, (ranges[:, 0] + ranges[:, 1]).tolist())
    widths = (ranges[:, 1] - ranges[:, 0]).tolist()
    _check_symmetric("joint limits", reflection, widths, signed=False)
    return partners


def _partner(
    model: mujoco.MjModel, data: mujoco.MjData, joint: int, ids: list[int]
) -> tuple[int, float]:
    """Return the joint at the mirror image of a joint, and the sign of its angle."""
    place, axis = _joint_in_root(model, data, joint)
    flip = np.array(VECTOR)
    turned = model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_SLIDE
    place, axis = flip * place, (-flip if turned else flip) * axis
    for other in ids:
        there, along = _joint_in_root(model, data, other)
        for sign in (1.0, -1.0):
            distance = max(np.abs(there - place).max(), np.abs(sign * along - axis).max())
            if distance < TOLERANCE and model.jnt_type[other] == model.jnt_type[joint]:
                return other, sign
    raise ConfigurationError(
        f"The joint {model.joint(joint).name!r} has no mirror image: no joint with the mirrored "
        f"axis is within {TOLERANCE} m of the mirrored place in the model's reference pose. Leave "
        "the symmetry out, or make the model symmetric."
    )


def _joint_in_root(
    model: mujoco.MjModel, data: mujoco.MjData, joint: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a joint's position and axis in the frame of its robot's root."""
    place, turn = _root(model, data, int(model.jnt_bodyid[joint]))
    return (data.xanchor[joint] - place) @ turn, data.xaxis[joint] @ turn


def _root(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of a body's root, and its axes as columns."""
    root = int(model.body_rootid[body])
    return data.xpos[root], data.xmat[root].reshape(3, 3)


def _check_symmetric(
    what: str, reflection: Reflection, values: list[float], *, signed: bool = True
) -> None:
    """Refuse values for each joint that differ from their mirror image."""
    for place, (other, sign) in enumerate(zip(reflection.places, reflection.signs, strict=True)):
        image = (sign if signed else 1.0) * values[other]
        if abs(values[place] - image) > TOLERANCE:
            raise ConfigurationError(
                f"The {what} are not symmetric: {values[place]:g} on one side, {image:g} in the "
                "mirror. Leave the symmetry out, or make them so."
            )


def _of_grid(cfg: RayCasterCfg) -> Reflection:
    """Return the reflection of a height scan, which exchanges the points (x, y) and (x, -y)."""
    points = cfg.pattern_cfg.points()
    centre = torch.tensor(cfg.offset[:2]).unsqueeze(1)
    found = (points + centre).T
    image = found * torch.tensor([1.0, -1.0])
    distance, places = torch.cdist(image, found).min(dim=1)
    if float(distance.max()) > TOLERANCE:
        raise ConfigurationError(
            f"The height scan's grid of {list(cfg.pattern_cfg.size)} m at {list(cfg.offset)} is "
            "not symmetric about y = 0. Leave the symmetry out, or move the grid."
        )
    return Reflection(places.tolist(), [1.0] * len(places))


def _of_bodies(model: mujoco.MjModel, names: list[str], signs: tuple[float, ...]) -> Reflection:
    """Return the reflection of bodies' columns, which come from the bodies at mirrored places."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    roots = {name: _root(model, data, model.body(name).id) for name in names}
    at = {name: (data.body(name).xpos - place) @ turn for name, (place, turn) in roots.items()}
    places: list[int] = []
    for name in names:
        errors = [float(np.abs(at[other] * np.array(VECTOR) - at[name]).max()) for other in names]
        partner = int(np.argmin(errors))
        if errors[partner] > TOLERANCE:
            raise ConfigurationError(
                f"The body {name!r} has no mirror image among {', '.join(names)}: none is within "
                f"{TOLERANCE} m of the mirrored place in the model's reference pose. Leave the "
                "symmetry out, or make the model symmetric."
            )
        places += [partner * len(signs) + i for i in range(len(signs))]
    return Reflection(places, list(signs) * len(names))


def _of_sensors(model: mujoco.MjModel, asset: SceneEntity) -> Reflection:
    """Return the reflection of readings, which come from the sensors at the mirrored sites."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    columns = np.arange(model.nsensordata)
    ids = asset.sensor_ids
    chosen = columns[ids if isinstance(ids, slice) else ids.cpu().numpy()].tolist()
    sensors = [i for i in range(model.nsensor) if int(model.sensor_adr[i]) in chosen]
    starts = {i: chosen.index(int(model.sensor_adr[i])) for i in sensors}
    places, signs = [0] * len(chosen), [1.0] * len(chosen)
    for sensor in sensors:
        other, turn = _sensor_partner(model, data, sensor, sensors)
        for axis in range(3):
            source = int(np.abs(turn[axis]).argmax())
            places[starts[sensor] + axis] = starts[other] + source
            signs[starts[sensor] + axis] = float(np.sign(turn[axis, source]))
    return Reflection(places, signs)


def _sensor_partner(
    model: mujoco.MjModel, data: mujoco.MjData, sensor: int, sensors: list[int]
) -> tuple[int, np.ndarray]:
    """Return the sensor at the mirrored site, and the matrix from its reading to the image here."""
    kind, site = int(model.sensor_type[sensor]), int(model.sensor_objid[sensor])
    name = model.sensor(sensor).name
    in_world = kind == _SENSOR.mjSENS_FRAMELINVEL
    is_known = not in_world or (
        model.sensor_objtype[sensor] == mujoco.mjtObj.mjOBJ_SITE and model.sensor_refid[sensor] < 0
    )
    if kind not in _VECTOR_SENSORS or not is_known:
        raise ConfigurationError(
            f"The mirror image of the sensor {name!r} is unknown: it measures no force, torque, "
            "acceleration or velocity at a site. Leave the symmetry out."
        )
    place, axes = _site_in_root(model, data, site)
    for other in sensors:
        there, away = _site_in_root(model, data, int(model.sensor_objid[other]))
        distance = np.abs(there * np.array(VECTOR) - place).max()
        turn = np.diag(_VECTOR_SENSORS[kind])
        if not in_world:
            turn = axes.T @ turn @ away
        is_aligned = np.abs(np.abs(turn) - np.abs(turn).round()).max() < TOLERANCE
        if model.sensor_type[other] == kind and distance < TOLERANCE and is_aligned:
            return other, turn
    raise ConfigurationError(
        f"The sensor {name!r} has no mirror image among those observed, whose site has the "
        "mirrored place and axes. Leave the symmetry out, or make the model symmetric."
    )


def _site_in_root(
    model: mujoco.MjModel, data: mujoco.MjData, site: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a site's position and axes in the frame of its robot's root."""
    place, turn = _root(model, data, int(model.site_bodyid[site]))
    return (data.site_xpos[site] - place) @ turn, turn.T @ data.site_xmat[site].reshape(3, 3)
