"""Tasks, and the discovery of installed ones. Imports neither torch nor MuJoCo."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
    shares_agents: ClassVar[bool] = False
    """Whether other tasks use its agents' files as well, which then name no experiment."""

    @property
    def trained_id(self) -> str:
        """Id of the task whose policies this one plays: without ``-Play``."""
        return self.id.replace("-Play-v", "-v").removesuffix("-Play")

    @property
    def experiment_name(self) -> str:
        """Folder of the runs if no agent configuration names one; spelled in the same way."""
        return self.id.lower().removesuffix("-v0").replace("-", "_")

    def suited(self, make_cfg: Callable[[], Any]) -> Task:
        """Return this task, for the environment's configuration that ``make_cfg`` returns."""
        return self

    def modules_of(self, cfg: Any) -> list[str]:
        """Return the modules that a configuration has the environment import by their names."""
        return []

    def make(self, cfg: Any, **kwargs: Any) -> Any:
        """Build the environment with a configuration, as ``gymnasium.make(id, cfg=cfg)`` does."""
        import gymnasium  # takes 0.1 s, which --help does not need

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
