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

import mujoco
import numpy as np

from envlab.envs.entity_cfg import EntityCfg
from envlab.envs.entity_files import Part, is_one_body, read_thing, where_is
from envlab.envs.entity_names import owner_of, record_prefixes
from envlab.envs.initial_state import HOME, place_joints, set_controls
from envlab.envs.model_files import (
    compile_spec,
    find_model,
    read_spec,
)
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.mujoco_backend import route_mujoco_warnings

logger = logging.getLogger(__name__)

_FREE = mujoco.mjtJoint.mjJNT_FREE
_COUNTED = ("sensors", "actuators", "tendons", "equalities", "excludes", "pairs")
"""Parts that an attachment may drop."""


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
        specs[name] = read_thing(parts[-1], dt)
    scene = mujoco.MjSpec() if base is None else specs[base]
    scene.compiler.conflict = mujoco.mjtConflict.mjCONFLICT_MERGE
    scene.modelname = "scene"
    with quiet_conflicts():
        for part in parts:
            if part.name != base:
                _attach(scene, specs[part.name], part)
    record_prefixes(scene, prefixes)
    return scene, parts


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
    """Return the error for a scene that MuJoCo refuses, with the place in the file that is wrong.

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
        f"MuJoCo can compile each file alone, but not the scene of {', '.join(entities)}: "
        f"{reason}. Change its settings in env.scene.entities."
    )


# --------------------------------------------------------------------------------------------------


def _prefixes(entities: Mapping[str, EntityCfg]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, cfg in entities.items():
        prefix = name if cfg.prefix is None else cfg.prefix
        if not re.fullmatch(r"[\w.\- ]*", prefix) or not re.fullmatch(r"[\w.\- ]+", name):
            raise ConfigurationError(
                f"{where_is(name)} has the prefix {prefix!r}, but names and prefixes of things are "
                "letters, digits, and . _ -. Remove other characters."
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
    if state is not None and not is_one_body(spec):
        if any(joint.type == _FREE for joint in spec.joints):
            raise ConfigurationError(
                f"{where_is(part.name)}.init_state places a thing of several bodies, one of which "
                "moves freely. Move that body to another file, and make it a separate thing."
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
                "to what is not in its file. Remove them from the file, and add them by "
                "env.scene.spec_fn."
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
def quiet_conflicts() -> Iterator[None]:
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
