"""Tasks, and the discovery of installed ones. Imports neither torch nor MuJoCo."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from envlab.errors import ConfigurationError, UnknownTaskError
from envlab.plugins import load_plugins

ENTRY_POINT_GROUP = "envlab.tasks"
"""Entry points that name modules, whose import registers tasks. It includes envlab's own."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One registered task, as listed."""

    id: str
    kind: str
    """``manager``, ``direct``, or the entry point's class name."""
    libraries: list[str]
    """Existing configurations: ``rsl_rl``, ``skrl``, ``skrl_mappo``, ..."""
    description: str
    kwargs: dict[str, Any] = field(repr=False)
    """The registration's keywords."""

    @property
    def trained_id(self) -> str:
        """Id of the task whose policies this one plays: without ``-Play``."""
        return self.id.replace("-Play-v", "-v").removesuffix("-Play")

    @property
    def experiment_name(self) -> str:
        """Folder of the runs if no agent configuration names one; spelled in the same way."""
        return self.id.lower().removesuffix("-v0").replace("-", "_")

    def make(self, cfg: Any, **kwargs: Any) -> Any:
        """Build the environment with a configuration, as ``gymnasium.make(id, cfg=cfg)`` does."""
        return gymnasium.make(self.id, cfg=cfg, **kwargs).unwrapped


def discover() -> dict[str, str]:
    """Import all suites of tasks, once; return failures as ``{package: error}``."""
    return load_plugins(ENTRY_POINT_GROUP).failed


def import_named(module: str, task_id: str) -> None:
    """Import the module of ``module:Id``, which registers the task.

    Raises:
        UnknownTaskError: If there is no such module.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnknownTaskError(
            f"The task {task_id!r} names the module {module!r}, which cannot be imported: {error}."
        ) from error


def load_entry_point(entry_point: Any) -> Any:
    """Return the object that ``module:name`` names; an object is returned as it is.

    Raises:
        ConfigurationError: If there is no such module or name.
    """
    if not isinstance(entry_point, str):
        return entry_point
    module, _, name = entry_point.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The entry point {entry_point!r} cannot be imported: {error}."
        ) from error
    try:
        return getattr(imported, name)
    except AttributeError as error:
        raise ConfigurationError(
            f"The entry point {entry_point!r} names nothing: {module} has no {name!r}."
        ) from error
