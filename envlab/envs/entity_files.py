"""Reading one thing of a scene, with what its configuration changes of it; writing a whole scene.

A thing is a file or a shape. A written scene is an MJCF with its meshes, textures and height
fields.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco

from envlab.envs.actuators import apply_actuators
from envlab.envs.entity_cfg import EntityCfg, ShapeCfg
from envlab.envs.initial_state import HOME, place_root, robot_body
from envlab.envs.model_files import find_file, find_model, read_spec, urdf_moves_freely
from envlab.envs.surroundings import disable_gravity, set_floating_base
from envlab.envs.variants import as_entity, merge
from envlab.errors import ConfigurationError

_FREE = mujoco.mjtJoint.mjJNT_FREE
_GEOMS = {
    name: getattr(mujoco.mjtGeom, f"mjGEOM_{name.upper()}")
    for name in ("box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh")
}
_NUM_SIZES = {"box": 3, "sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3}


@dataclass
class Part:
    """A thing that has joined a scene.

    Attributes:
        name: The thing's name.
        cfg: Its configuration.
        prefix: The prefix of its names, ``cube/`` or empty.
        qpos: Positions of joints in the keyframe of its file, by full name.
        ctrl: Controls in the keyframe of its file, by full name.
        root: Full name of its topmost body; None: it has none.
        variants: Its variants, compiled alone; empty: it has none.
    """

    name: str
    cfg: EntityCfg
    prefix: str
    qpos: dict[str, list[float]] = field(default_factory=dict)
    ctrl: dict[str, float] = field(default_factory=dict)
    root: str | None = None
    variants: list[mujoco.MjModel] = field(default_factory=list)


def where_is(name: str) -> str:
    """Return the path of a thing's configuration, for errors."""
    return f"env.scene.entities.{name}"


def read_thing(part: Part, dt: float | None) -> mujoco.MjSpec:
    """Return a thing's specification, with variants that of the first."""
    cfg, where = part.cfg, where_is(part.name)
    if not cfg.variants:
        return read_entity(part, dt)
    if cfg.model or cfg.shape is not None:
        raise ConfigurationError(
            f"{where} has variants, and also a {'model' if cfg.model else 'shape'}. Make that one "
            "of the variants, or leave it out."
        )
    specs = {}
    for name, variant in reversed(cfg.variants.items()):  # the first is what stays in part
        part.cfg = as_entity(cfg, variant)
        specs[name] = read_entity(part, dt)
        if not is_one_body(specs[name]):
            raise ConfigurationError(
                f"{where}.variants.{name} has several bodies on the world, or none, but a variant "
                "must be one, with others below it. Change its file."
            )
    part.cfg = cfg
    spec, part.variants = merge(dict(reversed(specs.items())), where)
    return spec


def read_entity(part: Part, dt: float | None) -> mujoco.MjSpec:
    """Return a thing's specification with all that its configuration says, not yet in a scene.

    Its keyframe moves into ``part``.

    Raises:
        ConfigurationError: For settings that do not fit it.
        SimulationError: If its file is missing or MuJoCo refuses it.
    """
    cfg, where = part.cfg, where_is(part.name)
    if bool(cfg.model) == (cfg.shape is not None):
        raise ConfigurationError(
            f"{where} has {'both a model and' if cfg.model else 'neither a model nor'} a shape, "
            "but needs one of the two. Set model to a file, or shape to a ShapeCfg."
        )
    freely = None
    if cfg.shape is not None:
        spec = _shape(part.name, cfg.shape, where)
    else:
        path = find_model(cfg.model, f"{where}.model")
        spec, freely = read_spec(path), urdf_moves_freely(path)
        absolute_files(spec)  # which a scene would look for in the folder of another thing
    _name_parts(spec)
    _take_home(spec, part)
    if cfg.spec_fn is not None:
        cfg.spec_fn(spec)
        _name_parts(spec)
    floating = False if cfg.mocap and cfg.floating_base == "auto" else cfg.floating_base
    set_floating_base(spec, floating, freely, where)
    if cfg.mocap:
        _make_mocap(spec, where)
    if is_one_body(spec):
        place_root(spec, cfg.init_state, where)
    if cfg.actuators:
        step = spec.option.timestep if dt is None else dt
        apply_actuators(spec, cfg.actuators, step, where)
    if cfg.disable_gravity:
        disable_gravity(spec, cfg.disable_gravity, where)
    root = robot_body(spec)
    part.root = None if root is None else part.prefix + root.name
    return spec


# --------------------------------------------------------------------------------------------------


def _shape(name: str, cfg: ShapeCfg, where: str) -> mujoco.MjSpec:
    wanted = _NUM_SIZES.get(cfg.type)
    allowed = (0, 3) if wanted is None else (wanted,)
    if (cfg.type == "mesh") != bool(cfg.file) or len(cfg.size) not in allowed:
        raise ConfigurationError(
            f"{where}.shape is a {cfg.type} with {len(cfg.size)} sizes and the file {cfg.file!r}, "
            f"but a {cfg.type} needs "
            + (f"{wanted} sizes and no file." if wanted else "a file, and 3 factors or none.")
        )
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name=name)
    if cfg.mass is not None:
        body.add_freejoint(name=name)
    settings: dict[str, Any] = {} if cfg.collides else {"contype": 0, "conaffinity": 0}
    if cfg.type == "mesh":
        path = find_file(cfg.file, f"{where}.shape.file")
        spec.add_mesh(name=name, file=str(path.resolve()), scale=list(cfg.size) or [1.0, 1.0, 1.0])
        settings["meshname"] = name
    else:
        settings["size"] = [*cfg.size, *[0.0] * (3 - len(cfg.size))]
    body.add_geom(
        name=name,
        type=_GEOMS[cfg.type],
        mass=0.0 if cfg.mass is None else cfg.mass,
        friction=list(cfg.friction),
        condim=cfg.condim,
        solimp=[*cfg.solimp, 0.5, 2.0],
        rgba=list(cfg.rgba),
        **settings,
    )
    return spec


def _name_parts(spec: mujoco.MjSpec) -> None:
    """Name what a scene finds by name: bodies on the world, joints and actuators."""
    for kind, found in (
        ("body", spec.worldbody.bodies),
        ("joint", spec.joints),
        ("actuator", spec.actuators),
    ):
        found = list(found)
        taken = {one.name for one in found}
        for number, one in enumerate(found):
            if not one.name:
                name = f"{kind}_{number}"
                one.name = f"unnamed_{name}" if name in taken else name


def _make_mocap(spec: mujoco.MjSpec, where: str) -> None:
    body = robot_body(spec)
    if body is None or list(body.joints):
        has = "no body" if body is None else f"the joint {body.joints[0].name!r} at its root"
        raise ConfigurationError(
            f"{where}.mocap is true, but the thing has {has}. Give it a topmost body without a "
            "joint, and set floating_base to auto or false."
        )
    body.mocap = True


def is_one_body(spec: mujoco.MjSpec) -> bool:
    """Return whether all of a file is one body on the world, with what is below it."""
    return len(list(spec.worldbody.bodies)) == 1 and not list(spec.worldbody.geoms)


def _take_home(spec: mujoco.MjSpec, part: Part) -> None:
    """Move the keyframe of a file into ``part``."""
    joints, actuators = list(spec.joints), list(spec.actuators)
    key = spec.key(HOME)
    if key is not None:
        start, positions = 0, [float(value) for value in key.qpos]
        for joint in joints:
            width = {_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}.get(joint.type, 1)
            values = positions[start : start + width]
            if len(values) == width:
                part.qpos[part.prefix + joint.name] = values
            start += width
        part.ctrl = {
            part.prefix + one.name: float(value)
            for one, value in zip(actuators, key.ctrl, strict=False)
        }
    for one in list(spec.keys):
        spec.delete(one)


ASSETS = "assets"
"""Folder of the files beside ``scene.xml``."""


def absolute_files(spec: mujoco.MjSpec) -> None:
    """Give the files that a specification reads their whole paths, which hold in another."""
    for one, folder in _readers(spec):
        if not Path(one.file).is_absolute():
            one.file = str(Path(spec.modelfiledir, folder, one.file).resolve())


def write_scene(spec: mujoco.MjSpec, folder: Path) -> list[Path]:
    """Write ``scene.xml`` and copies of the files that it reads.

    Args:
        spec: A compiled scene; it is changed.
        folder: Where to, a folder that exists.

    Returns:
        What was written.
    """
    absolute_files(spec)
    spec.meshdir = spec.texturedir = ""
    written: list[Path] = []
    with warnings.catch_warnings():  # about attachments, which were logged
        warnings.simplefilter("ignore", UserWarning)
        text = str(spec.to_xml())
    sources = {one.file for one, _ in _readers(spec)}
    for number, source in enumerate(sorted(sources)):
        (folder / ASSETS).mkdir(exist_ok=True)
        target = folder / ASSETS / f"{number}_{Path(source).name}"
        shutil.copyfile(source, target)
        text = text.replace(f'"{source}"', f'"{ASSETS}/{target.name}"')
        written.append(target)
    (folder / "scene.xml").unlink(missing_ok=True)  # it could be a link to another file
    (folder / "scene.xml").write_text(text)
    return [folder / "scene.xml", *written]


def _readers(spec: mujoco.MjSpec) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a specification that read files, and the folders of these."""
    for one in (*spec.meshes, *spec.hfields, *spec.skins):
        if one.file:
            yield one, spec.meshdir
    for one in spec.textures:
        if one.file:
            yield one, spec.texturedir
