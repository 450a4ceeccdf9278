"""What can be spawned, as parts of one MuJoCo model: robots, bodies, fixed shapes, ground."""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

import mujoco
import numpy as np
import torch

from envlab.errors import ConfigurationError
from envlab_isaaclab.stage import Spawned

_FREE = mujoco.mjtJoint.mjJNT_FREE
_RANKS = ("average", "min", "multiply", "max")
"""PhysX's ways to combine two frictions; of two materials' ways the later one counts."""
UNLIMITED = 1e9


@dataclass(frozen=True)
class Material:
    """How a surface rubs: coefficients, and how they are combined with another's."""

    static: float = 0.5
    dynamic: float = 0.5
    restitution: float = 0.0
    combine: str = "average"

    @classmethod
    def of(cls, cfg: Any) -> Material | None:
        """Return the material of Isaac Lab's configuration, None if it has none."""
        if cfg is None or not hasattr(cfg, "static_friction"):
            return None
        return cls(
            float(cfg.static_friction),
            float(cfg.dynamic_friction),
            float(cfg.restitution),
            cfg.friction_combine_mode,
        )


def combined(own: Any, mode: str, ground: Material) -> Any:
    """Return the friction of a surface against the ground, as PhysX combines it.

    Args:
        own: The surface's coefficient, a number or a tensor.
        mode: The surface's way.
        ground: The ground's material.
    """
    mode = max(mode, ground.combine, key=_RANKS.index)
    if mode == "multiply":
        return own * ground.static
    if mode == "average":
        return (own + ground.static) / 2
    if isinstance(own, torch.Tensor):
        return own.clamp(**{"max" if mode == "min" else "min": ground.static})
    return min(own, ground.static) if mode == "min" else max(own, ground.static)


@dataclass
class Robot:
    """A tree of bodies and joints.

    Attributes:
        spec: The robot's model, without actuators and sensors.
        top: The topmost body in it.
        root: Name of the link that PhysX takes as root, if the file's topmost body moves on it.
        is_fixed: Whether the root is fixed to the world.
        siblings: How PhysX orders links on the same link.
        efforts: Limits of joints' forces in the file, by joint.
        has_self_collisions: Whether its links touch each other.
        is_weightless: Whether gravity does not act on it.
        material: Its surface; None: the simulation's.
        options: Settings of the solver that go with the model; None: MuJoCo's.
    """

    spec: mujoco.MjSpec
    top: str
    root: str | None = None
    is_fixed: bool = False
    siblings: Literal["name", "file"] = "name"
    efforts: dict[str, float] = field(default_factory=dict)
    has_self_collisions: bool = False
    is_weightless: bool = False
    material: Material | None = None
    options: Any = None

    def links(self) -> list[str]:
        """Return the links in PhysX's order, breadth first."""
        found, waiting = [], deque([self.spec.body(self.top)])
        while waiting:
            body = waiting.popleft()
            found.append(body.name)
            below = list(body.bodies)
            waiting += sorted(below, key=lambda one: one.name) if self.siblings == "name" else below
        return found if self.root is None else [self.root, *found]

    def joints(self) -> list[str]:
        """Return the hinges and slides in PhysX's order."""
        names = []
        for link in self.links()[self.root is not None :]:
            own = [joint.name for joint in self.spec.body(link).joints if joint.type != _FREE]
            names += sorted(own)  # PhysX's joint of several axes has them as x, y, z
        return names


@dataclass
class Body:
    """One rigid body of one shape, which moves freely, or is placed by a script."""

    shape: Any
    """Its geom: a function of a body that adds it."""
    mass: float | None = None
    is_placed: bool = False
    material: Material | None = None
    is_weightless: bool = False


@dataclass
class Fixed:
    """A shape that is fixed to the world."""

    shape: Any
    collides: bool = True
    material: Material | None = None


@dataclass
class Ground:
    """The endless plane."""

    material: Material | None = None


@dataclass
class Terrain:
    """A mesh of the ground, whose heights are known on a grid.

    Attributes:
        heights: In m, ``(num_x, num_y)``.
        start: x and y of the first.
        cell: Distance of two, in m.
    """

    heights: np.ndarray
    start: tuple[float, float]
    cell: float
    material: Material | None = None

    @functools.cached_property
    def is_flat(self) -> bool:
        """Whether all heights are the same, to a hundredth of a millimetre."""
        return float(np.ptp(self.heights)) < 1e-5


def robot(spec: mujoco.MjSpec, **settings: Any) -> Robot:
    """Return a robot from its model, whose actuators, sensors and lights are taken away.

    Joints lose their damping and friction, since those of PhysX come from the actuators alone.

    Raises:
        ConfigurationError: If the model has not exactly one topmost body.
    """
    efforts = {}
    for actuator in spec.actuators:
        limit = max(abs(actuator.forcerange[1]), abs(actuator.gear[0] * actuator.ctrlrange[1]))
        if limit > 0:
            efforts[actuator.target] = float(limit)
    for kind in ("actuators", "sensors", "keys", "lights", "cameras"):
        for one in list(getattr(spec, kind)):
            spec.delete(one)
    tops = list(spec.worldbody.bodies)
    if len(tops) != 1:
        raise ConfigurationError(
            f"A robot's file has {len(tops)} topmost bodies, but an articulation has one root."
        )
    for joint in spec.joints:
        if joint.type != _FREE:
            joint.damping, joint.frictionloss = _none(joint.damping), 0.0
            joint.stiffness = _none(joint.stiffness)
            high = float(joint.actfrcrange[1])
            if high > 0:
                efforts.setdefault(joint.name, high)
                joint.actfrcrange = [0.0, 0.0]
    known = {one.name for one in dataclasses.fields(Robot)}
    return Robot(
        spec,
        tops[0].name,
        efforts=efforts,
        options=spec.option,
        **{name: value for name, value in settings.items() if name in known},
    )


def _none(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, np.ndarray) else 0.0


class Composer:
    """Joins spawned things to one model of an environment."""

    def __init__(self, material: Material, gravity: tuple[float, ...], dt: float) -> None:
        self.spec = mujoco.MjSpec()
        self.spec.compiler.degree = False
        option = self.spec.option
        option.timestep, option.gravity = dt, np.asarray(gravity)
        option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        option.impratio, option.iterations, option.ls_iterations = 10.0, 20, 20
        self.default = material
        self.ground: Material | None = None
        self.materials: dict[str, Material] = {}
        """Surfaces of things that move, by path."""
        self._bits = 1
        self._has_options = False

    def add(self, path: str, spawned: Spawned) -> None:
        """Add a thing.

        Raises:
            ConfigurationError: If there are too many robots for MuJoCo's filter of collisions.
        """
        thing = spawned.thing
        if isinstance(thing, Robot):
            self._add_robot(path, spawned, thing)
        elif isinstance(thing, Body):
            body = self.spec.worldbody.add_body(name=path, pos=spawned.pos, quat=spawned.quat)
            thing.shape(body)
            body.gravcomp = float(thing.is_weightless)
            if thing.is_placed:
                body.mocap = True
            else:
                body.add_freejoint(name=f"{path} free")
            if thing.mass is not None:
                self._set_mass(body, thing.mass)
            self._collide(body.geoms, 1, _ALL)
            self.materials[path] = thing.material or self.default
        elif isinstance(thing, Fixed):
            body = self.spec.worldbody.add_body(name=path, pos=spawned.pos, quat=spawned.quat)
            thing.shape(body)
            self._collide(body.geoms, int(thing.collides), _ALL * thing.collides)
            for geom in body.geoms:
                geom.friction[0] = (thing.material or self.default).static
        elif isinstance(thing, Ground | Terrain):
            self._add_ground(path, spawned, thing)

    def finish(self) -> mujoco.MjSpec:
        """Return the model: surfaces that move are combined with the ground's."""
        ground = self.ground or self.default
        for path, material in self.materials.items():
            for body in self.spec.bodies:
                if body.name == path or body.name.startswith(f"{path}/"):
                    for geom in body.geoms:
                        geom.friction[0] = combined(material.static, material.combine, ground)
                        geom.priority = 1
        return self.spec

    def _add_robot(self, path: str, spawned: Spawned, thing: Robot) -> None:
        if not self._has_options:
            self._has_options = True
            for name in ("cone", "impratio", "iterations", "ls_iterations", "solver"):
                setattr(self.spec.option, name, getattr(thing.options, name))
        if self._bits >= 30:
            raise ConfigurationError(
                "The scene has more than 29 robots, but MuJoCo filters collisions by 32 bits."
            )
        copied = thing.spec.copy()
        self._filter(copied, thing.has_self_collisions)
        top = copied.body(thing.top)
        if thing.is_fixed or thing.root is not None:
            for joint in [joint for joint in top.joints if joint.type == _FREE]:
                copied.delete(joint)
        above = self.spec.worldbody
        if thing.root is not None:
            above = above.add_body(name=f"{path}/{thing.root}", pos=spawned.pos, quat=spawned.quat)
        body = above.add_frame().attach_body(top, f"{path}/", "")
        if thing.root is not None:
            body.pos = [0.0, 0.0, 0.0]
        else:
            body.pos, body.quat = spawned.pos, spawned.quat
            if not thing.is_fixed and not any(one.type == _FREE for one in body.joints):
                body.add_freejoint(name=f"{path}/root joint")
        for link in thing.links():
            one = self.spec.body(f"{path}/{link}")
            one.simple = 0  # its centre of mass may be moved
            one.gravcomp = float(thing.is_weightless)
        self.materials[path] = thing.material or self.default

    def _filter(self, spec: mujoco.MjSpec, has_self_collisions: bool) -> None:
        """Let a robot touch all other things, and those of its links that its file lets touch."""
        self._bits += 1
        own, shared = 1 << self._bits, 1 << 31 >> 1
        geoms = [geom for geom in spec.geoms if geom.contype or geom.conaffinity]
        before = [(geom.contype, geom.conaffinity) for geom in geoms]
        for geom, (kind, other) in zip(geoms, before, strict=True):
            touches = has_self_collisions and any(
                kind & theirs or mine & other for mine, theirs in before
            )
            geom.contype = shared if touches else own
            geom.conaffinity = _ALL & ~own if touches else _ALL & ~own & ~shared

    @staticmethod
    def _collide(geoms: Any, contype: int, conaffinity: int) -> None:
        for geom in geoms:
            geom.contype, geom.conaffinity = contype, conaffinity

    @staticmethod
    def _set_mass(body: Any, mass: float) -> None:
        for geom in body.geoms:
            geom.mass = mass / max(1, len(list(body.geoms)))

    def _add_ground(self, path: str, spawned: Spawned, thing: Ground | Terrain) -> None:
        material = thing.material or self.default
        if self.ground is None:
            self.ground = material
        world = self.spec.worldbody
        if isinstance(thing, Ground):
            geom = world.add_geom(
                name=path, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=spawned.pos
            )
        else:
            low, high = float(thing.heights.min()), float(thing.heights.max())
            half = [(count - 1) * thing.cell / 2 for count in thing.heights.shape]
            middle = [first + size for first, size in zip(thing.start, half, strict=True)]
            if thing.is_flat:
                # Contacts with a box have closed forms: a physics step of Go2 took 0.66 of the
                # time that it took on a height field of the same flat surface.
                geom = world.add_geom(
                    name=path,
                    type=mujoco.mjtGeom.mjGEOM_BOX,
                    size=[*half, _DEPTH / 2],
                    pos=[*middle, low - _DEPTH / 2],
                )
            else:
                field = self.spec.add_hfield(
                    name=path,
                    nrow=thing.heights.shape[1],
                    ncol=thing.heights.shape[0],
                    size=[*half, high - low, _DEPTH],
                )
                field.userdata = ((thing.heights.T - low) / (high - low)).ravel().astype(np.float32)
                geom = world.add_geom(
                    name=path,
                    type=mujoco.mjtGeom.mjGEOM_HFIELD,
                    hfieldname=path,
                    pos=[*middle, low],
                )
        geom.friction[0] = material.static
        geom.contype, geom.conaffinity = 1, _ALL


_ALL = (1 << 31) - 1
_DEPTH = 1.0
"""Thickness of a terrain below its lowest point, in m."""
