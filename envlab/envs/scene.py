"""The scene of a task, and compiling its model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import mujoco

from envlab.config import PositiveInt
from envlab.envs.actuators import AnyActuatorCfg, apply_actuators
from envlab.envs.initial_state import InitialStateCfg, place_root, set_home
from envlab.envs.model_files import compile_spec, find_model, read_spec, urdf_moves_freely
from envlab.envs.surroundings import (
    add_sky,
    add_surroundings,
    disable_gravity,
    set_floating_base,
    stands_in_nothing,
)
from envlab.envs.terrain.cfg import TerrainCfg
from envlab.envs.terrain.ground import add_terrain
from envlab.sim.options import apply_options
from envlab.sim.simulation import SimulationCfg


@dataclass(kw_only=True)
class SceneCfg:
    """The scene of a task (``env.scene.*``)."""

    num_envs: PositiveInt = 4096
    """Environments per process."""
    model: str = ""
    """MJCF or URDF file: a path, ``package:path/inside/it.xml``, or ``menagerie:robot``."""
    ground: Literal["auto", True, False] = "auto"
    """Whether to add a floor at height 0, a light and a camera. ``auto``: to a file that holds
    only a robot that moves freely, or would fall along its slides; light and camera only if it has
    none."""
    floating_base: Literal["auto", True, False] = "auto"
    """Whether the robot's topmost body moves freely. ``auto``: as an MJCF file says; in URDF, which
    cannot say so, unless it has a link called ``world``."""
    init_state: InitialStateCfg | None = None
    """Start state of episodes, before events change it; null: the file's keyframe ``home``, else
    its zero pose."""
    actuators: dict[str, AnyActuatorCfg] | None = None
    """Actuator models for groups of joints, instead of the file's; null: only the file's."""
    disable_gravity: list[str] | None = None
    """Bodies without weight, by regular expressions that match in full; null: none."""
    terrain: TerrainCfg | None = None
    """Generated ground instead of the floor; null: the floor."""


_FRAMES = {"body_ipos", "body_iquat"}
"""Fields that may move a body's centre of mass away from its frame."""


def build_model(
    cfg: SceneCfg,
    sim: SimulationCfg | None = None,
    add_to_spec: Callable[[mujoco.MjSpec], None] | None = None,
) -> mujoco.MjModel:
    """Compile the scene of ``cfg``.

    Args:
        cfg: The scene.
        sim: Its physics: time step, options, and the fields that will change; None: the file's.
        add_to_spec: Adds what else the task needs, such as sensors; None: nothing.

    Raises:
        SimulationError: If its model is missing or MuJoCo refuses it.
        ConfigurationError: For joints that do not exist.
    """
    return build_spec(cfg, sim, add_to_spec)[1]


def build_spec(
    cfg: SceneCfg,
    sim: SimulationCfg | None = None,
    add_to_spec: Callable[[mujoco.MjSpec], None] | None = None,
) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """Return the scene of ``cfg``, and its compiled model; see :func:`build_model`."""
    path = find_model(cfg.model)
    spec = read_spec(path)
    if sim is not None:
        spec.option.timestep = sim.dt
        apply_options(spec.option, sim)
    set_floating_base(spec, cfg.floating_base, urdf_moves_freely(path))
    place_root(spec, cfg.init_state)
    if cfg.actuators:
        apply_actuators(spec, cfg.actuators, spec.option.timestep)
    if cfg.disable_gravity:
        disable_gravity(spec, cfg.disable_gravity)
    compiled = functools.cache(lambda: compile_spec(spec, path))
    if cfg.ground is True or (cfg.ground == "auto" and stands_in_nothing(spec, compiled)):
        add_surroundings(spec, compiled())
    if cfg.terrain is not None:
        add_terrain(spec, cfg.terrain)
    if sim is not None and not _FRAMES.isdisjoint(sim.model_fields):
        allow_moved_centres(spec)
    add_sky(spec)
    if add_to_spec is not None:
        add_to_spec(spec)
    model = compile_spec(spec, path)
    if cfg.init_state is not None or cfg.actuators:
        set_home(spec, model, cfg.init_state)
        model = compile_spec(spec, path)
    return spec, model


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
