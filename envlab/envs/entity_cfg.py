"""The things that a scene is composed of, each with its own file or shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from envlab.config import PositiveFloat
from envlab.envs.actuators import AnyActuatorCfg
from envlab.envs.initial_state import InitialStateCfg


@dataclass(kw_only=True)
class ShapeCfg:
    """A body of one geom."""

    type: Literal["box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh"] = "box"
    """MuJoCo's word for it."""
    size: tuple[float, ...] = ()
    """MuJoCo's, in m: half edges of a box, the radius of a sphere, radius and half length of a
    capsule or cylinder, half axes of an ellipsoid; of a mesh factors for its file, or nothing."""
    file: str = ""
    """File of a mesh: a path, or ``package:path/inside/it.obj``."""
    mass: PositiveFloat | None = None
    """Mass in kg; null: the shape is fixed to the world, or follows its mocap pose."""
    friction: tuple[float, float, float] = (1.0, 0.005, 0.0001)
    """Sliding, torsional and rolling friction."""
    condim: Literal[1, 3, 4, 6] = 3
    """Dimensions of its contacts: 4 has torsional, 6 rolling friction."""
    solimp: tuple[float, float, float] = (0.9, 0.95, 0.001)
    """Constraint impedance of its contacts: its minimum and maximum, and the width in m."""
    rgba: tuple[float, float, float, float] = (0.6, 0.6, 0.6, 1.0)
    """Colour."""
    collides: bool = True
    """Whether it touches other things, or is only seen."""


@dataclass(kw_only=True)
class VariantCfg:
    """One of the objects that a thing may be (``env.scene.entities.<name>.variants.<name>.*``)."""

    model: str = ""
    """MJCF or URDF file; empty: :attr:`shape`. Materials of variants count by their colour."""
    shape: ShapeCfg | None = None
    """One geom instead of a file."""
    weight: PositiveFloat = 1.0
    """How many environments have it, relative to the others."""


@dataclass(kw_only=True)
class EntityCfg:
    """A thing of a scene: a robot, an object, a table (``env.scene.entities.<name>.*``)."""

    model: str = ""
    """MJCF or URDF file, as ``env.scene.model``; empty: :attr:`shape` has what it is."""
    shape: ShapeCfg | None = None
    """One geom instead of a file."""
    variants: dict[str, VariantCfg] = field(default_factory=dict)
    """Instead of either, files and shapes with the same bodies and joints, of which each
    environment has one, by its global index and their weights."""
    prefix: str | None = None
    """Names in the scene are ``prefix/name``; null: the thing's own name. One thing may have an
    empty prefix, so that its names stay those of its file."""
    init_state: InitialStateCfg | None = None
    """Its pose in the scene, and its joints; null: as in the file. A thing with several bodies on
    the world, or none, is moved as a whole."""
    floating_base: Literal["auto", True, False] = "auto"
    """As ``env.scene.floating_base``."""
    mocap: bool = False
    """Whether its topmost body is a mocap body, which physics never moves: a goal, an obstacle or a
    moving base, with a pose in each environment."""
    actuators: dict[str, AnyActuatorCfg] | None = None
    """As ``env.scene.actuators``, for its joints."""
    disable_gravity: list[str] | None = None
    """As ``env.scene.disable_gravity``, for its bodies."""
    spec_fn: Callable[..., Any] | None = None
    """``func(spec)`` changes its ``mujoco.MjSpec`` before it joins the scene, for what these
    settings cannot say; or its ``module:name``."""


def entities_in(scene: Any) -> dict[str, EntityCfg]:
    """Return the things of a scene's configuration: fields of it, and those of ``entities``."""
    fields = {item.name: getattr(scene, item.name) for item in dataclasses.fields(scene)}
    named = {name: value for name, value in fields.items() if isinstance(value, EntityCfg)}
    return named | dict(scene.entities)
