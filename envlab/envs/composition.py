"""Composing a scene of several things, each from its own file, by ``MjSpec.attach``.

Surprises of MuJoCo, and this file's answers:

- Keyframes of a file that is attached are lost or mixed with others: they are read before, by the
  names of joints and actuators, and written as one keyframe ``home``.
- Sensors and other parts that refer to the world are dropped without a word: they are counted.
- A prefix that is empty spoils the saved file: such a thing's file is what the others join.
- Options of a file count where the scene has MuJoCo's default; other conflicts are warnings.
"""

from __future__ import annotations

import logging
import operator
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from envlab.envs.actuators import apply_actuators
from envlab.envs.entity_cfg import EntityCfg, ShapeCfg
from envlab.envs.entity_names import owner_of, record_prefixes
from envlab.envs.initial_state import HOME, place_joints, place_root, robot_body, set_controls
from envlab.envs.model_files import (
    compile_spec,
    find_file,
    find_model,
    read_spec,
    urdf_moves_freely,
)
from envlab.envs.surroundings import disable_gravity, set_floating_base
from envlab.envs.variants import as_entity, merge
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.mujoco_backend import route_mujoco_warnings

logger = logging.getLogger(__name__)

_FREE = mujoco.mjtJoint.mjJNT_FREE
_GEOMS = {
    name: getattr(mujoco.mjtGeom, f"mjGEOM_{name.upper()}")
    for name in ("box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh")
}
_NUM_SIZES = {"box": 3, "sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3}
_COUNTED = ("sensors", "actuators", "tendons", "equalities", "excludes", "pairs")
"""Parts that an attachment may drop."""


@dataclass
class Part:
    """A thing that has joined a scene.

    Attributes:
        name: The thing's name.
        cfg: Its configuration.
        prefix: What its names begin with, ``cube/`` or nothing.
        qpos: Positions of joints in the keyframe of its file, by full name.
        ctrl: Controls likewise.
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


def compose(
    entities: Mapping[str, EntityCfg], dt: float | None
) -> tuple[mujoco.MjSpec, list[Part]]:
    """Join things to one specification.

    Args:
        entities: The things by name, in the order of their bodies.
        dt: Physics time step in s, of which actuators' delays are multiples; None: the files'.

    Returns:
        The scene, and the things in it.

    Raises:
        ConfigurationError: If two have one prefix, or one cannot join.
        SimulationError: If a file is missing or MuJoCo refuses it.
    """
    prefixes = _prefixes(entities)
    base = next((name for name, prefix in prefixes.items() if not prefix), None)
    specs, parts = {}, []
    for name, cfg in entities.items():
        parts.append(Part(name, cfg, prefixes[name]))
        specs[name] = _read(parts[-1], dt)
    scene = mujoco.MjSpec() if base is None else specs[base]
    scene.compiler.conflict = mujoco.mjtConflict.mjCONFLICT_MERGE
    scene.modelname = "scene"
    with _quiet_conflicts():
        for part in parts:
            if part.name != base:
                _attach(scene, specs[part.name], part)
    record_prefixes(scene, prefixes)
    return scene, parts


def _read(part: Part, dt: float | None) -> mujoco.MjSpec:
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
        if not _is_one_body(specs[name]):
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
    _name_parts(spec)
    _take_home(spec, part)
    if cfg.spec_fn is not None:
        cfg.spec_fn(spec)
        _name_parts(spec)
    floating = False if cfg.mocap and cfg.floating_base == "auto" else cfg.floating_base
    set_floating_base(spec, floating, freely, where)
    if cfg.mocap:
        _make_mocap(spec, where)
    if _is_one_body(spec):
        place_root(spec, cfg.init_state, where)
    if cfg.actuators:
        step = spec.option.timestep if dt is None else dt
        apply_actuators(spec, cfg.actuators, step, where)
    if cfg.disable_gravity:
        disable_gravity(spec, cfg.disable_gravity, where)
    root = robot_body(spec)
    part.root = None if root is None else part.prefix + root.name
    return spec


def set_scene_home(spec: mujoco.MjSpec, model: mujoco.MjModel, parts: list[Part]) -> None:
    """Make the keyframe ``home`` of a composed scene from those of the things' files.

    Args:
        spec: The scene; the keyframe is added.
        model: The same, compiled.
        parts: Its things.

    Raises:
        ConfigurationError: For an expression that matches no joint.
    """
    prefixes = {part.name: part.prefix for part in parts}
    qpos, ctrl = np.array(model.qpos0), np.zeros(model.nu)
    for part in parts:
        for joint, values in part.qpos.items():  # those that settings have not removed
            index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, joint)
            if index >= 0:
                start = int(model.jnt_qposadr[index])
                qpos[start : start + len(values)] = values
        for actuator, value in part.ctrl.items():
            index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, actuator)
            if index >= 0:
                ctrl[int(model.actuator_ctrladr[index])] = value
        state = part.cfg.init_state
        if state is not None:
            _place_free_root(model, qpos, part)
            names = enumerate(model.joint(joint).name for joint in range(model.njnt))
            own = [joint for joint, name in names if owner_of(name, prefixes) == part.name]
            place_joints(model, qpos, state, own, where_is(part.name))
    set_controls(model, qpos, ctrl)
    spec.add_key(name=HOME, qpos=qpos, ctrl=ctrl)


def explain_refusal(error: ValueError, entities: Mapping[str, EntityCfg]) -> SimulationError:
    """Return the error for a scene that MuJoCo refuses, with the place in a file if one is wrong.

    Args:
        error: What MuJoCo says.
        entities: The things.
    """
    for cfg in entities.values():
        if cfg.model:
            path = find_model(cfg.model)
            try:
                compile_spec(read_spec(path), path)
            except SimulationError as wrong:
                return wrong
    reason = " ".join(str(error).split()).rstrip(".")
    return SimulationError(
        f"MuJoCo cannot compile the scene of {', '.join(entities)}, though it can each file alone: "
        f"{reason}. Change what env.scene.entities says of it."
    )


# --------------------------------------------------------------------------------------------------


def _prefixes(entities: Mapping[str, EntityCfg]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, cfg in entities.items():
        prefix = name if cfg.prefix is None else cfg.prefix
        if not re.fullmatch(r"[\w.\- ]*", prefix) or not re.fullmatch(r"[\w.\- ]+", name):
            raise ConfigurationError(
                f"{where_is(name)} has the prefix {prefix!r}, but names and prefixes of things are "
                "letters, digits, and . _ -. Leave other signs out."
            )
        prefix = f"{prefix}/" if prefix else ""
        for other, taken in found.items():
            if taken == prefix:
                raise ConfigurationError(
                    f"The things {other!r} and {name!r} of env.scene.entities both have the prefix "
                    f"{prefix.rstrip('/')!r}, but names in a scene must differ. Give one of them "
                    "another prefix."
                )
        found[name] = prefix
    return found


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


def _is_one_body(spec: mujoco.MjSpec) -> bool:
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


def _attach(scene: mujoco.MjSpec, spec: mujoco.MjSpec, part: Part) -> None:
    """Attach a thing to a scene, where its initial state says.

    Raises:
        ConfigurationError: If MuJoCo refuses, or drops a part of it.
    """
    before = {kind: [one.name for one in getattr(spec, kind)] for kind in _COUNTED}
    counts = {kind: len(list(getattr(scene, kind))) for kind in _COUNTED}
    _adopt_looks(scene, spec)
    frame = scene.worldbody.add_frame()
    state = part.cfg.init_state
    if state is not None and not _is_one_body(spec):
        if any(joint.type == _FREE for joint in spec.joints):
            raise ConfigurationError(
                f"{where_is(part.name)}.init_state places a thing of several bodies, one of which "
                "moves freely. Give that one a file and a thing of its own."
            )
        frame.pos = state.pos or (0.0, 0.0, 0.0)
        frame.quat = state.rot or (1.0, 0.0, 0.0, 0.0)
    what = f"The thing {part.name!r} ({part.cfg.model or 'a shape'}) cannot join the scene"
    try:
        scene.attach(spec, prefix=part.prefix, frame=frame)
    except ValueError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigurationError(f"{what}: {reason}. Correct its file.") from None
    for kind, names in before.items():
        now = [one.name for one in getattr(scene, kind)][counts[kind] :]
        lost = [name for name in names if name and part.prefix + name not in now]
        if lost or len(now) < len(names):
            raise ConfigurationError(
                f"{what}: MuJoCo drops {len(names) - len(now)} of its {kind}"
                f"{f', such as {lost[0]!r}' if lost else ''}, because they refer to the world or "
                "to what is not in its file. Remove them there, and add them by env.scene.spec_fn."
            )


def _adopt_looks(scene: mujoco.MjSpec, spec: mujoco.MjSpec) -> None:
    """Take a file's statistics and visual settings where the scene has MuJoCo's defaults."""
    plain = mujoco.MjSpec()
    looks = [name for name in dir(plain.visual) if not name.startswith("_")]
    groups = [operator.attrgetter(f"visual.{name}") for name in looks]
    for group in (*groups, operator.attrgetter("stat")):
        default, ours, theirs = group(plain), group(scene), group(spec)
        for name in (name for name in dir(default) if not name.startswith("_")):
            if np.array_equal(getattr(default, name), getattr(ours, name), equal_nan=True):
                setattr(ours, name, getattr(theirs, name))


def _place_free_root(model: mujoco.MjModel, qpos: np.ndarray, part: Part) -> None:
    """Write the pose of a thing that moves freely, as its keyframe may have another."""
    state = part.cfg.init_state
    if state is None or part.root is None:
        return
    body = model.body(part.root)
    if body.dofnum[0] != 6 or model.jnt_type[body.jntadr[0]] != _FREE:
        return
    start = int(model.jnt_qposadr[body.jntadr[0]])
    if state.pos is not None:
        qpos[start : start + 3] = state.pos
    if state.rot is not None:
        qpos[start + 3 : start + 7] = state.rot


@contextmanager
def _quiet_conflicts() -> Iterator[None]:
    """Log conflicts between files' options in one line each, and not the adopted ones."""
    kept: list[str] = []
    mujoco.set_mju_user_warning(kept.append)
    try:
        yield
    finally:
        route_mujoco_warnings()
        for text in kept:
            thing = re.search(r"attaching '([^']*)'", text)
            for line in text.splitlines():
                is_kept = "keeping parent value" in line
                if is_kept and "(default)" not in line.partition(", child")[0]:
                    name = f" of {thing.group(1)!r}" if thing else ""
                    logger.warning("Options%s differ from the scene's: %s.", name, line.strip())


@contextmanager
def quiet_compiling() -> Iterator[None]:
    """Keep MuJoCo from repeating its messages about attachments with each compilation."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*[Aa]ttach.*")
        yield
