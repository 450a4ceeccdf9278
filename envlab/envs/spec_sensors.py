"""Frames and sensors that a configuration adds to a model before it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco

from envlab.envs.entity_names import check_one_thing, matching, owner_of, prefixes_of
from envlab.errors import ConfigurationError, did_you_mean


@dataclass(kw_only=True)
class OffsetCfg:
    """A frame fixed to a body."""

    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Its origin in the body's frame, in m."""
    rot: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """Its orientation in the body's frame, (w, x, y, z)."""


def add_frame(spec: mujoco.MjSpec, what: str, body_name: str, offset: OffsetCfg) -> str:
    """Add a site to a body of the model, unless there is an equal one, and return its name.

    Args:
        spec: The model.
        what: What asks for it, for the error: ``"An IMU is on the body"``.
        body_name: The body, by a regular expression; the first match counts.
        offset: The site's pose on it.

    Raises:
        ConfigurationError: If there is no such body, or several things have one.
    """
    found = matches(what, body_name, names_of(spec, "body"))
    check_one_thing("body", [body_name], found, spec)
    body = found[0]
    pos, rot = tuple(map(float, offset.pos)), tuple(map(float, offset.rot))
    name = f"{body} {pos} {rot}"
    if spec.site(name) is None:
        spec.body(body).add_site(name=name, pos=pos, quat=rot, group=5)
    return name


KINDS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "xbody": mujoco.mjtObj.mjOBJ_XBODY,
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "site": mujoco.mjtObj.mjOBJ_SITE,
    "joint": mujoco.mjtObj.mjOBJ_JOINT,
    "camera": mujoco.mjtObj.mjOBJ_CAMERA,
    "tendon": mujoco.mjtObj.mjOBJ_TENDON,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
}
"""What a sensor may measure: MuJoCo's own words. ``body`` is a body's inertial frame, ``xbody`` the
frame that its file gives it."""


def names_of(spec: mujoco.MjSpec, kind: str, entity: str = "") -> list[str]:
    """Return the names of a kind in :data:`KINDS`, or of those at and below the body ``entity``.

    In a composed scene, ``entity`` is a thing. Otherwise, as in terms, ``robot`` is the whole model
    if no body has that name.

    Raises:
        ConfigurationError: If there is no body of that name.
    """
    kind = "body" if kind == "xbody" else kind
    lists = {"body": "bodies"}
    found = [one.name for one in getattr(spec, lists.get(kind, f"{kind}s")) if one.name]
    if not entity:
        return found
    prefixes = prefixes_of(spec)
    if entity in prefixes:
        return [name for name in found if owner_of(name, prefixes) == entity and name != "world"]
    top = spec.body(entity)
    if top is None:
        if entity != "robot":
            bodies = names_of(spec, "body")
            raise ConfigurationError(
                f"A sensor names the entity {entity!r}, but the model has the bodies "
                f"{', '.join(bodies)}.{did_you_mean(entity, bodies)}"
            )
        return [name for name in found if name != "world"]
    below = {one.name for one in top.find_all(KINDS[kind])}
    return [name for name in found if name in below or (kind == "body" and name == entity)]


def matches(what: str, patterns: str | Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that any pattern, a regular expression, matches in full, in their order.

    Args:
        what: The beginning of the error: ``"A contact sensor's primary names the body"``.
        patterns: The patterns.
        names: All names.

    Raises:
        ConfigurationError: For a pattern that matches none.
    """
    chosen: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = matching(pattern, names)
        if not found:
            raise ConfigurationError(
                f"{what} {pattern!r}, but the model has {', '.join(names) or 'none with a name'}."
                f"{did_you_mean(pattern, names)}"
            )
        chosen.update(found)
    return [name for name in names if name in chosen]


def add_sensor(spec: mujoco.MjSpec, name: str, **settings: Any) -> None:
    """Add a MuJoCo sensor, unless an equal one already has the name.

    Args:
        spec: The model.
        name: Its name.
        settings: Those of ``MjSpec.add_sensor``.

    Raises:
        ConfigurationError: If another sensor has the name.
    """
    existing = spec.sensor(name)
    if existing is None:
        spec.add_sensor(name=name, **settings)
    elif any(_plain(getattr(existing, key)) != value for key, value in settings.items()):
        raise ConfigurationError(
            f"env.sensors adds the MuJoCo sensor {name!r}, but the model has another one of that "
            "name. Give it another name."
        )


def _plain(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def columns_of(model: mujoco.MjModel, name: str) -> range:
    """Return the columns of ``sensordata`` of a sensor that was added."""
    sensor = model.sensor(name)
    return range(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]))
