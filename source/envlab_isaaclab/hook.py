"""Import hooks: Kit's modules are ours, and so are a few files of Isaac Lab.

Three things may happen when a script imports a module:

- it is Kit's: it is one of :func:`envlab_isaaclab.kit.modules`, or inert;
- it is a file of Isaac Lab that is about USD, windows or the simulator (:data:`REPLACED`): its
  names are those of a module of ours;
- it is one of which a few names are ours (:data:`CHANGED`): it is the user's own file, changed
  after it was run.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

from envlab.errors import ConfigurationError
from envlab_isaaclab import kit
from envlab_isaaclab.inert import ROOTS, InertModule
from envlab_isaaclab.upstream import OLD

OPTIONAL = ("hid", "pink", "pinocchio", "flatdict", "dex_retargeting", "curobo")
"""Packages of devices and controllers, which are inert where they are not installed."""

REPLACED = {
    "isaaclab.app.app_launcher": "app",
    "isaaclab.sim.simulation_context": "context",
    "isaaclab.sim.utils.stage": "stage_functions",
    "isaaclab.sim.utils.prims": "prim_functions",
    "isaaclab.sim.utils.transforms": "transform_functions",
    "isaaclab.sim.views.xform_prim_view": "transform_functions",
    "isaaclab.sim.spawners.from_files.from_files": "spawn_files",
    "isaaclab.sim.spawners.shapes.shapes": "spawn_shapes",
    "isaaclab.sim.spawners.meshes.meshes": "spawn_shapes",
    "isaaclab.sim.spawners.wrappers.wrappers": "spawn_files",
}
"""Files of Isaac Lab, and the modules of this package with the same names in them."""
_TORCH = "isaacsim.core.utils.torch"
REPLACED |= dict.fromkeys(
    (_TORCH, f"{_TORCH}.rotations", f"{_TORCH}.transformations", f"{_TORCH}.maths"),
    "torch_functions",
)
MOVED = {"isaaclab.utils.pretrained_checkpoint": "isaaclab_rl.utils.pretrained_checkpoint"}
"""Modules of earlier releases, and where they are in 2.3."""
CHANGED = {
    "isaaclab.actuators.actuator_net": "networks_at_hand",
    "isaaclab.envs.manager_based_rl_env": "device_that_is_there",
    "isaaclab.markers.visualization_markers": "no_markers",
    "isaaclab.sensors.camera.camera": "pictures",
    "isaaclab.sensors.camera.tiled_camera": "pictures",
    "isaaclab.sensors.ray_caster.ray_caster": "ray_casts",
    "isaaclab.terrains.utils": "terrain_meshes",
    "isaaclab.utils.assets": "local_files",
    "isaaclab.utils.io": "old_names",
    "isaaclab_rl.rl_games.rl_games": "own_device_of_wrapper",
    "isaaclab_rl.rsl_rl": "later_rsl_rl",
    "isaaclab_rl.rsl_rl.exporter": "exports",
    "rl_games.torch_runner": "own_device_of_runner",
    "skrl.utils.runner.torch.runner": "later_skrl",
}
"""Files of Isaac Lab, rl_games and skrl; for each a function of :mod:`envlab_isaaclab.changes`."""


class _Loader(importlib.abc.Loader):
    """Creates an inert module of Kit's, or a module with names of ours."""

    def __init__(self, made: dict[str, types.ModuleType]) -> None:
        self._made = made

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.name in MOVED:
            return importlib.import_module(MOVED[spec.name])
        if spec.name in REPLACED:
            return types.ModuleType(spec.name)
        return self._made.get(spec.name) or InertModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ in REPLACED:
            ours = importlib.import_module(f"envlab_isaaclab.{REPLACED[module.__name__]}")
            vars(module).update({name: getattr(ours, name) for name in ours.__all__})
            vars(module)["__all__"] = ours.__all__


class _Changing(importlib.abc.Loader):
    """Loads a file, then changes names in it."""

    def __init__(self, loader: Any, change: str) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        created: types.ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: types.ModuleType) -> None:
        self._loader.exec_module(module)
        _change(module, self._change)


class Finder(importlib.abc.MetaPathFinder):
    """See the module."""

    def __init__(self) -> None:
        self._loader = _Loader(kit.modules())
        self._inert = {*ROOTS, *(name for name in OPTIONAL if not _is_installed(name))}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.startswith(OLD):
            raise ConfigurationError(
                f"The script imports {name}, of Isaac Lab 1, whose modules have been called "
                "isaaclab, isaaclab_tasks and isaaclab_rl since 2.0. Rename its imports, or take a "
                "later version of it."
            )
        is_inert = name.partition(".")[0] in self._inert
        if is_inert or name in REPLACED or name in MOVED:
            return importlib.machinery.ModuleSpec(name, self._loader, is_package=is_inert)
        if name in CHANGED:
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Changing(spec.loader, CHANGED[name])
            return spec
        return None


def _change(module: types.ModuleType, function: str) -> None:
    changes = importlib.import_module("envlab_isaaclab.changes")
    getattr(changes, function)(module)


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def known_modules() -> set[str]:
    """Return the modules of Kit's that do something here."""
    return {*kit.modules(), *REPLACED}


def install() -> None:
    """Let imports of this process go through a :class:`Finder`, before all other finders."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
        for name in CHANGED.keys() & sys.modules.keys():
            _change(sys.modules[name], CHANGED[name])
        for name in kit.modules():
            importlib.import_module(name)  # a name of the package above, without an import of it
