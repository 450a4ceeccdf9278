"""Frames fixed to bodies."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from envlab.envs.entity_names import check_one_thing
from envlab.envs.spec_sensors import matches, names_of


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
