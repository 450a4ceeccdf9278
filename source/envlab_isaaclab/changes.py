"""Changes of a few names in files of Isaac Lab, made after the user's own file was run."""

from __future__ import annotations

import functools
import logging
import types
from pathlib import Path
from typing import Any

from envlab.distributed.ranks import launched_rank
from envlab_isaaclab.app import resolve_device

logger = logging.getLogger(f"envlab.{__name__}")


def device_that_is_there(module: types.ModuleType) -> None:
    """Use the CPU if a configuration names a GPU that this machine lacks."""
    kind = vars(module)["ManagerBasedRLEnv"]
    make = kind.__init__

    @functools.wraps(make)
    def making(self: Any, cfg: Any, *arguments: Any, **keywords: Any) -> None:
        cfg.sim.device = str(resolve_device(str(cfg.sim.device)))
        make(self, cfg, *arguments, **keywords)

    kind.__init__ = making


class _Markers:
    """Arrows and frames of markers, which are not drawn: there is no window."""

    def __init__(self, cfg: Any) -> None:
        self.cfg, self.count = cfg, 0
        self.num_prototypes = len(cfg.markers)

    def visualize(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing."""

    def set_visibility(self, visible: bool) -> None:
        """Do nothing."""

    def is_visible(self) -> bool:
        """Return False."""
        return False


def no_markers(module: types.ModuleType) -> None:
    """Draw no markers."""
    vars(module)["VisualizationMarkers"] = _Markers


GAINS = {"anydrive": (40.0, 5.0), "unitree_go1": (25.0, 0.5)}
"""Springs (N m/rad) and dampers (N m s/rad) for networks of actuators, by words of their files."""


def networks_at_hand(module: types.ModuleType) -> None:
    """Take a DC motor for an actuator whose network lies on Nvidia's server."""
    for name in ("ActuatorNetLSTM", "ActuatorNetMLP"):
        _take_motor(vars(module)[name], vars(module)["DCMotor"])


def _take_motor(kind: Any, motor: Any) -> None:
    make, reset, compute = kind.__init__, kind.reset, kind.compute

    def gains(self: Any) -> tuple[float, float] | None:
        file = str(self.cfg.network_file)
        known = [found for word, found in GAINS.items() if word in file]
        return known[0] if known and not Path(file).is_file() else None

    def making(self: Any, cfg: Any, *arguments: Any, **keywords: Any) -> None:
        self.cfg = cfg
        found = gains(self)
        if found is None:
            make(self, cfg, *arguments, **keywords)
            return
        motor.__init__(self, cfg, *arguments, **keywords)
        for tensor, value in zip((self.stiffness, self.damping), found, strict=True):
            tensor.fill_(value)
        logger.warning(
            "The actuator's network %s lies on Nvidia's server; DC motors with %g N m/rad and "
            "%g N m s/rad take its place. Copies of such files: --nucleus FOLDER.",
            *(cfg.network_file, *found),
        )

    def resetting(self: Any, env_ids: Any) -> None:
        (reset if gains(self) is None else motor.reset)(self, env_ids)

    def computing(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return (compute if gains(self) is None else motor.compute)(self, *arguments, **keywords)

    kind.__init__, kind.reset, kind.compute = making, resetting, computing


def pictures(module: types.ModuleType) -> None:
    """Let our pictures be those of cameras."""
    from envlab_isaaclab.cameras import METHODS

    name = "TiledCamera" if module.__name__.endswith("tiled_camera") else "Camera"
    for method, function in METHODS.items():
        setattr(vars(module)[name], method, function)


def exports(module: types.ModuleType) -> None:
    """Export networks of the installed rsl_rl."""
    from envlab_isaaclab import rsl_rl_3

    for name in ("export_policy_as_jit", "export_policy_as_onnx"):
        vars(module)[name] = getattr(rsl_rl_3, name)


def later_rsl_rl(module: types.ModuleType) -> None:
    """Offer what later releases have for scripts: configurations stay as they are here."""
    vars(module).setdefault("handle_deprecated_rsl_rl_cfg", lambda cfg, version: cfg)


def later_skrl(module: types.ModuleType) -> None:
    """Read configurations that were written for skrl 1."""
    from skrl.envs.wrappers.torch import MultiAgentEnvWrapper

    from envlab.skrl.legacy import as_observations, modernised

    kind = vars(module)["Runner"]
    make = kind.__init__

    @functools.wraps(make)
    def making(self: Any, env: Any, cfg: Any, **keywords: Any) -> None:
        modern = modernised(cfg)
        cfg |= {name: modern[name] for name in ("agent", "models") if name in modern}
        if not isinstance(env, MultiAgentEnvWrapper) and env.state_space is None:
            cfg["models"] = as_observations(cfg["models"])
        make(self, env, cfg, **keywords)

    kind.__init__ = making


def own_device_of_runner(module: types.ModuleType) -> None:
    """Let rl_games learn on the CPU if a configuration names a GPU that this machine lacks."""
    kind = vars(module)["Runner"]
    load = kind.load

    @functools.wraps(load)
    def loading(self: Any, yaml_config: Any) -> None:
        settings = yaml_config["params"]["config"]
        for name in ("device", "device_name"):
            if name in settings:
                settings[name] = str(resolve_device(str(settings[name])))
        load(self, yaml_config)

    kind.load = loading


def own_device_of_wrapper(module: types.ModuleType) -> None:
    """Let observations for rl_games be where its networks are."""
    kind = vars(module)["RlGamesVecEnvWrapper"]
    make = kind.__init__

    @functools.wraps(make)
    def making(self: Any, env: Any, rl_device: str, *arguments: Any, **keywords: Any) -> None:
        make(self, env, str(resolve_device(rl_device)), *arguments, **keywords)

    kind.__init__ = making


def local_files(module: types.ModuleType) -> None:
    """Find files on this machine only."""

    def check(path: Any) -> int:
        return int(Path(path).is_file())

    vars(module).update(
        check_file_path=check, check_usd_path_with_timeout=lambda path, *_, **__: bool(check(path))
    )


def old_names(module: types.ModuleType) -> None:
    """Offer what releases before 2.3 had; of several ranks, the first writes."""
    from envlab_isaaclab.old_files import dump_pickle, load_pickle

    for name, function in (("dump_pickle", dump_pickle), ("load_pickle", load_pickle)):
        vars(module).setdefault(name, function)
    write = vars(module)["dump_yaml"]

    @functools.wraps(write)
    def write_once(*arguments: Any, **keywords: Any) -> None:
        if launched_rank() == 0:
            write(*arguments, **keywords)

    vars(module)["dump_yaml"] = write_once


def terrain_meshes(module: types.ModuleType) -> None:
    """Let the mesh of a terrain be the ground."""
    from envlab_isaaclab.terrains import spawn_mesh

    vars(module)["create_prim_from_mesh"] = spawn_mesh


def ray_casts(module: types.ModuleType) -> None:
    """Look heights of a terrain up where rays point straight down."""
    from envlab_isaaclab.terrains import height_rays

    vars(module)["raycast_mesh"] = height_rays(vars(module)["raycast_mesh"])
