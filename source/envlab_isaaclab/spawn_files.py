"""``isaaclab.sim.spawners.from_files``: robots and props from files, and the ground."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envlab.envs.model_files import read_spec
from envlab.errors import ConfigurationError
from envlab_isaaclab.fixed_joints import merge_fixed_joints
from envlab_isaaclab.prim_functions import clone
from envlab_isaaclab.robots import find_prop, find_robot, knows_robot
from envlab_isaaclab.spawn_shapes import geom, is_weightless, put, reports_contacts, spawn_shape
from envlab_isaaclab.stage import Prim
from envlab_isaaclab.things import Fixed, Ground, Material, Robot, robot
from envlab_isaaclab.usd import read_usd

__all__ = [
    "spawn_from_mjcf",
    "spawn_from_urdf",
    "spawn_from_usd",
    "spawn_from_usd_with_compliant_contact_material",
    "spawn_ground_plane",
    "spawn_multi_asset",
    "spawn_multi_usd_file",
]

_GROUNDS = ("default_environment.usd", "flat_plane.usd", "gridroom_curved.usd")


def _settings(cfg: Any) -> dict[str, Any]:
    """Return what a spawner says of a robot, by the names of :class:`Robot`."""
    props = cfg.articulation_props
    found: dict[str, Any] = {"is_weightless": is_weightless(cfg)}
    if props is not None and props.enabled_self_collisions is not None:
        found["has_self_collisions"] = bool(props.enabled_self_collisions)
    if props is not None and props.fix_root_link is not None:
        found["is_fixed"] = bool(props.fix_root_link)
    return found


def _put_robot(path: str, cfg: Any, made: Robot, where: Any, turn: Any) -> Prim:
    prim = put(path, cfg, made, where, turn)
    prim.apis.add("ArticulationRootAPI")
    for link in made.links():
        reports_contacts(prim.stage.define(f"{path}/{link}"), cfg)
    return prim


@clone
def spawn_from_usd(
    prim_path: str,
    cfg: Any,
    translation: Sequence[float] | None = None,
    orientation: Sequence[float] | None = None,
    **keywords: Any,
) -> Prim:
    """Spawn a robot or a prop from a USD file, or our model in its place.

    Raises:
        ConfigurationError: If there is neither.
    """
    path = str(cfg.usd_path)
    own = local_model(path)
    if own is not None:
        made = read_usd(own, **_settings(cfg)) if own.suffix.startswith(".usd") else None
        made = made or robot(read_spec(own), **_settings(cfg))
        return _put_robot(prim_path, cfg, made, translation, orientation)
    made = find_robot(path, **_settings(cfg))
    if made is not None:
        return _put_robot(prim_path, cfg, made, translation, orientation)
    prop = find_prop(path)
    if prop is not None:
        kind, shape, mass = prop
        if kind == "fixed":
            return put(prim_path, cfg, Fixed(shape), translation, orientation)
        scale = cfg.scale or (1.0, 1.0, 1.0)
        sizes = [half * factor for half, factor in zip(shape, scale, strict=True)]
        mass *= scale[0] * scale[1] * scale[2]
        return spawn_shape(prim_path, cfg, geom("BOX", sizes), translation, orientation, mass)
    if path.lower().endswith(_GROUNDS):
        return put(prim_path, cfg, Ground(), translation, orientation)
    if _is_picture(prim_path, cfg):
        return put(prim_path, cfg, Fixed(geom("SPHERE", [0.01, 0, 0]), collides=False), translation)
    raise ConfigurationError(
        f"{path}, to be spawned at {prim_path}, is not on this machine, and envlab has no model in "
        "its place. Name a folder that has a copy, or a URDF or MJCF file in its place: --nucleus "
        "FOLDER."
    )


def local_model(path: str) -> Path | None:
    """Return the URDF or MJCF file of that name, else the file itself; None if all are missing."""
    file = Path(path)
    found = [one for one in map(file.with_suffix, (".urdf", ".xml")) if one.is_file()]
    return found[0] if found else file if file.is_file() else None


def has_model(path: str) -> bool:
    """Return whether a USD file can be spawned: itself, or a model in its place."""
    is_ours = knows_robot(path) or find_prop(path) is not None
    return is_ours or local_model(path) is not None or path.lower().endswith(_GROUNDS)


def _is_picture(prim_path: str, cfg: Any) -> bool:
    """Return whether a thing is only seen, as markers are."""
    return prim_path.startswith("/Visuals")


@clone
def spawn_from_urdf(
    prim_path: str,
    cfg: Any,
    translation: Sequence[float] | None = None,
    orientation: Sequence[float] | None = None,
    **keywords: Any,
) -> Prim:
    """Spawn a robot from a URDF file, or an MJCF file, whose links stay in the file's order."""
    path = _local(cfg.asset_path, prim_path)
    settings = {"is_fixed": bool(cfg.fix_base), **_settings(cfg)}
    spec = read_spec(path)
    if path.suffix != ".urdf":
        settings["siblings"] = "file"
    elif cfg.merge_fixed_joints:
        spec = merge_fixed_joints(spec, path)
    return _put_robot(prim_path, cfg, robot(spec, **settings), translation, orientation)


spawn_from_mjcf = spawn_from_urdf


def _local(path: Any, prim_path: str) -> Path:
    if not Path(path).is_file():
        raise ConfigurationError(f"{path}, to be spawned at {prim_path}, is not on this machine.")
    return Path(path)


def spawn_ground_plane(
    prim_path: str,
    cfg: Any,
    translation: Sequence[float] | None = None,
    *arguments: Any,
    **keywords: Any,
) -> Prim:
    """Spawn the endless plane."""
    prim = put(prim_path, cfg, Ground(Material.of(cfg.physics_material)), translation)
    prim.stage.define(f"{prim_path}/collider", "Plane")
    return prim


def spawn_multi_asset(prim_path: str, cfg: Any, *arguments: Any, **keywords: Any) -> Prim:
    """Refuse: all environments are one model.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"Different things are to be spawned at {prim_path} in different environments, but all "
        "environments are one MuJoCo model here. Spawn one of them."
    )


spawn_multi_usd_file = spawn_multi_asset
spawn_from_usd_with_compliant_contact_material = spawn_from_usd
