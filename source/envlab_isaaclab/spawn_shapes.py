"""``isaaclab.sim.spawners.shapes`` and ``.meshes``: boxes, balls, cylinders, capsules, cones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab_isaaclab import stage
from envlab_isaaclab.prim_functions import clone
from envlab_isaaclab.stage import Prim, Spawned
from envlab_isaaclab.things import Body, Fixed, Material

__all__ = [
    f"spawn_{kind}{shape}"
    for kind in ("", "mesh_")
    for shape in ("sphere", "cuboid", "cylinder", "capsule", "cone")
]

_TURNS = {"X": [np.sqrt(0.5), 0, np.sqrt(0.5), 0], "Y": [np.sqrt(0.5), np.sqrt(0.5), 0, 0]}


def put(
    path: str,
    cfg: Any,
    thing: Any,
    translation: Sequence[float] | None = None,
    orientation: Sequence[float] | None = None,
) -> Prim:
    """Put a thing at a path of the stage.

    Raises:
        ConfigurationError: If the path has a thing already.
    """
    found = stage.current()
    if path in found.spawned:
        raise ConfigurationError(f"Two things were spawned at {path}. Give each a different path.")
    prim = found.define(path)
    prim.pos = np.array(translation if translation is not None else (0.0, 0.0, 0.0), float)
    prim.quat = np.array(orientation if orientation is not None else (1.0, 0.0, 0.0, 0.0), float)
    found.spawned[path] = Spawned(prim, cfg, prim.pos, prim.quat, thing)
    return prim


def reports_contacts(prim: Prim, cfg: Any) -> None:
    """Let a prim be a body, whose contacts are known if the configuration asks for them."""
    prim.apis.add("RigidBodyAPI")
    if getattr(cfg, "activate_contact_sensors", False):
        prim.apis.add("PhysxContactReportAPI")


def is_weightless(cfg: Any) -> bool:
    """Return whether gravity does not act on what a configuration describes."""
    return bool(getattr(getattr(cfg, "rigid_props", None), "disable_gravity", False))


def spawn_shape(
    path: str,
    cfg: Any,
    shape: Callable[[Any], None],
    translation: Sequence[float] | None,
    orientation: Sequence[float] | None,
    mass: float | None = None,
) -> Prim:
    """Spawn a body of one shape, or a fixed one if it is no rigid body."""
    rigid, material = cfg.rigid_props, Material.of(getattr(cfg, "physics_material", None))
    if rigid is None:
        collides = cfg.collision_props is not None
        return put(path, cfg, Fixed(shape, collides, material), translation, orientation)
    props = cfg.mass_props
    if props is not None and props.mass is not None:
        mass = float(props.mass)
    placed = bool(rigid.kinematic_enabled)
    thing = Body(shape, mass, placed, material, is_weightless(cfg))
    prim = put(path, cfg, thing, translation, orientation)
    reports_contacts(prim, cfg)
    return prim


def geom(kind: str, size: Sequence[float], **settings: Any) -> Callable[[Any], None]:
    """Return a function that adds a geom to a body, with the density of water."""

    def add(body: Any) -> None:
        body.add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{kind}"), size=size, **settings)

    return add


def _spawner(name: str, make: Callable[[Any], Callable[[Any], None]]) -> Callable[..., Prim]:
    def spawn(
        prim_path: str,
        cfg: Any,
        translation: Sequence[float] | None = None,
        orientation: Sequence[float] | None = None,
        **keywords: Any,
    ) -> Prim:
        return spawn_shape(prim_path, cfg, make(cfg), translation, orientation)

    # By which Hydra and pickle find it again.
    spawn.__name__ = spawn.__qualname__ = f"spawn_{name}"
    spawn.__doc__ = f"Spawn a {name}."
    return clone(spawn)


def _along(cfg: Any) -> dict[str, Any]:
    return {"quat": _TURNS[cfg.axis]} if cfg.axis in _TURNS else {}


spawn_sphere = spawn_mesh_sphere = _spawner(
    "sphere", lambda cfg: geom("SPHERE", [cfg.radius, 0, 0])
)
spawn_cuboid = spawn_mesh_cuboid = _spawner(
    "cuboid", lambda cfg: geom("BOX", [size / 2 for size in cfg.size])
)
spawn_cylinder = spawn_mesh_cylinder = _spawner(
    "cylinder", lambda cfg: geom("CYLINDER", [cfg.radius, cfg.height / 2, 0], **_along(cfg))
)
spawn_capsule = spawn_mesh_capsule = _spawner(
    "capsule", lambda cfg: geom("CAPSULE", [cfg.radius, cfg.height / 2, 0], **_along(cfg))
)


def spawn_cone(prim_path: str, cfg: Any, *arguments: Any, **keywords: Any) -> Prim:
    """Refuse: MuJoCo has no cones.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"A cone is spawned at {prim_path}, a shape that MuJoCo does not have. Use a cylinder or a "
        "capsule."
    )


spawn_mesh_cone = spawn_cone
