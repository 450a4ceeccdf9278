"""The scene of a task, and compiling its model."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import mujoco

from envlab.config import PositiveInt
from envlab.envs.actuators import AnyActuatorCfg, apply_actuators
from envlab.envs.composition import (
    Part,
    compose,
    explain_refusal,
    quiet_compiling,
    set_scene_home,
)
from envlab.envs.entity_cfg import EntityCfg, entities_in
from envlab.envs.initial_state import InitialStateCfg, place_root, set_home
from envlab.envs.model_files import compile_spec, find_model, read_spec, urdf_moves_freely
from envlab.envs.surroundings import (
    add_sky,
    add_surroundings,
    disable_gravity,
    needs_ground,
    set_floating_base,
)
from envlab.envs.terrain.cfg import TerrainCfg
from envlab.envs.terrain.generator import add_terrain
from envlab.envs.variants import EntityVariants, rows_in
from envlab.errors import ConfigurationError
from envlab.sim.cfg import apply_options
from envlab.sim.simulation import SimulationCfg

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class SceneCfg:
    """The scene of a task (``env.scene.*``): one file, or things that each have a file.

    A thing is an entry of :attr:`entities`, or a field of a subclass that is an :class:`EntityCfg`,
    as in Isaac Lab.
    """

    num_envs: PositiveInt = 4096
    """Environments per process."""
    model: str = ""
    """MJCF or URDF file: a path, ``package:path/inside/it.xml``, or ``menagerie:robot``. It is the
    whole scene, without the entities; empty: the scene is composed of them."""
    entities: dict[str, EntityCfg] = field(default_factory=dict)
    """Things by name: robots, objects, tables; the order is that of their bodies."""
    replaces: str = ""
    """The file that was this scene before it was composed: runs whose ``model`` it is get this."""
    ground: Literal["auto", True, False] = "auto"
    """Whether to add a floor at height 0, a light and a camera. ``auto``: to a file that holds
    only a robot that moves freely, or would fall along its slides; light and camera only if it has
    none."""
    floating_base: Literal["auto", True, False] = "auto"
    """Whether the robot's topmost body moves freely. ``auto``: as an MJCF file states; a URDF file
    cannot state it, so its robot moves freely unless it has a link called ``world``."""
    init_state: InitialStateCfg | None = None
    """Start state of episodes, before events change it; null: the file's keyframe ``home``, else
    its zero pose."""
    actuators: dict[str, AnyActuatorCfg] | None = None
    """Actuator models for groups of joints, instead of the file's; null: only the file's."""
    disable_gravity: list[str] | None = None
    """Bodies without weight, by regular expressions that match in full; null: none."""
    terrain: TerrainCfg | None = None
    """Generated ground instead of the floor; null: the floor."""
    skin: str | None = None
    """MJCF whose visual meshes are drawn in place of the robot's shapes in pictures, videos and
    viewers: as :attr:`model`, or ``menagerie`` for the Menagerie's robot of this name. Its bodies
    have the same names. The physics stays as it is."""
    spec_fn: Callable[..., Any] | None = None
    """``func(spec)`` changes the ``mujoco.MjSpec`` of the whole scene before it is compiled, for
    what these settings cannot say; or its ``module:name``."""

    @property
    def all_entities(self) -> dict[str, EntityCfg]:
        """The things by name; none if the scene is one file."""
        return {} if self.model not in ("", self.replaces) else entities_in(self)

    @property
    def all_actuators(self) -> dict[str, AnyActuatorCfg]:
        """The actuator models by group; those of a thing are called ``robot/legs``."""
        found = dict(self.actuators or {})
        for name, entity in self.all_entities.items():
            found |= {f"{name}/{group}": cfg for group, cfg in (entity.actuators or {}).items()}
        return found

    def check_values(self, path: str) -> None:
        """Refuse settings of one file in a scene that is composed.

        Raises:
            ConfigurationError: With the first of them.
        """
        names = list(self.all_entities)
        for name in ("init_state", "actuators", "disable_gravity", "floating_base"):
            if names and getattr(self, name) not in (None, "auto"):
                raise ConfigurationError(
                    f"{path}.{name} is set, but belongs to a scene of one file, and this one is "
                    f"composed of {', '.join(names)}. Set {path}.entities.{names[0]}.{name}, or "
                    "that of another thing."
                )


_FRAMES = {"body_ipos", "body_iquat"}
"""Fields that may move a body's centre of mass away from its frame."""


Edit = Callable[[mujoco.MjSpec], None]


def build_model(
    cfg: SceneCfg, sim: SimulationCfg | None = None, edit: Edit | None = None
) -> mujoco.MjModel:
    """Compile the scene of ``cfg``.

    Args:
        cfg: The scene.
        sim: Its physics: time step, options, and the fields that will change; None: the file's.
        edit: Changes the specification before it is compiled.

    Raises:
        SimulationError: If its model is missing or MuJoCo refuses it.
        ConfigurationError: For joints that do not exist.
    """
    return build_spec(cfg, sim, edit)[1]


def build_spec(
    cfg: SceneCfg, sim: SimulationCfg | None = None, edit: Edit | None = None
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Return the scene of ``cfg``, and its compiled model; see :func:`build_model`."""
    return build_scene(cfg, sim, edit)[:2]


def build_scene(
    cfg: SceneCfg, sim: SimulationCfg | None = None, edit: Edit | None = None
) -> tuple[mujoco.MjSpec, mujoco.MjModel, list[EntityVariants]]:
    """Return the scene of ``cfg``, its model, and its things' variants; see :func:`build_model`."""
    parts: list[Part] | None = None
    if cfg.all_entities:
        spec, parts = compose(cfg.all_entities, None if sim is None else sim.dt)
        compile_it = functools.partial(_compile_composed, spec, cfg)
    else:
        if entities_in(cfg):
            logger.warning(
                "env.scene.model is %r, the whole scene: the things %s are ignored.",
                cfg.model,
                ", ".join(entities_in(cfg)),
            )
        path = find_model(cfg.model)
        spec = read_spec(path)
        compile_it = functools.partial(compile_spec, spec, path)
    if sim is not None:
        spec.option.timestep = sim.dt
        apply_options(spec.option, sim)
    if parts is None:
        set_floating_base(spec, cfg.floating_base, urdf_moves_freely(path))
        place_root(spec, cfg.init_state)
        if cfg.actuators:
            apply_actuators(spec, cfg.actuators, spec.option.timestep)
        if cfg.disable_gravity:
            disable_gravity(spec, cfg.disable_gravity)
    compiled = functools.cache(compile_it)
    if cfg.ground is True or (cfg.ground == "auto" and needs_ground(spec, compiled)):
        add_surroundings(spec, compiled())
    if cfg.terrain is not None:
        add_terrain(spec, cfg.terrain)
    if sim is not None and not _FRAMES.isdisjoint(sim.model_fields):
        allow_moved_centres(spec)
    add_sky(spec)
    if cfg.spec_fn is not None:
        cfg.spec_fn(spec)
    if edit is not None:
        edit(spec)
    model = compile_it()
    if parts is not None:
        set_scene_home(spec, model, parts)
        model = compile_it()
    elif cfg.init_state is not None or cfg.actuators:
        set_home(spec, model, cfg.init_state)
        model = compile_it()
    varied = [part for part in parts or () if part.variants]
    variants = [rows_in(model, p.name, p.cfg, p.prefix, p.variants) for p in varied]
    return spec, model, variants


def _compile_composed(spec: mujoco.MjSpec, cfg: SceneCfg) -> mujoco.MjModel:
    try:
        with quiet_compiling():
            return spec.compile()
    except ValueError as error:
        raise explain_refusal(error, cfg.all_entities) from None


def allow_moved_centres(spec: mujoco.MjSpec) -> None:
    """Compile lone bodies so that their centre of mass may later leave their origin."""
    for body in spec.bodies:
        body.simple = 0


def load_model(source: str) -> mujoco.MjModel:
    """Compile the model that ``source`` names, unchanged.

    Args:
        source: See :func:`envlab.envs.model_files.find_model`.

    Raises:
        SimulationError: If the file is missing or MuJoCo refuses it.
    """
    path = find_model(source)
    return compile_spec(read_spec(path), path)
