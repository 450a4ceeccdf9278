"""Tasks, and the discovery of installed ones. Imports neither torch nor MuJoCo."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from envlab.errors import ConfigurationError, UnknownTaskError
from envlab.plugins import load_plugins

if TYPE_CHECKING:  # takes 0.1 s, which --help does not need
    from gymnasium.envs.registration import EnvSpec

ENTRY_POINT_GROUP = "envlab.tasks"
"""Entry points that name modules, whose import registers tasks. It includes envlab's own."""
NUMPY = "numpy/"
"""Namespace of the ids under which Gymnasium's users find tasks in numpy."""
_NUMPY_FACE = "envlab.envs.wrappers.gymnasium:"


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
        import gymnasium  # see above

        return gymnasium.make(self.id, cfg=cfg, **kwargs).unwrapped


def discover() -> dict[str, str]:
    """Import all suites of tasks, once; return failures as ``{package: error}``.

    Tasks that are registered with Gymnasium alone get their ids for numpy here.
    """
    import gymnasium  # takes 0.1 s, which --help does not need

    failed = load_plugins(ENTRY_POINT_GROUP).failed
    for name, spec in list(gymnasium.registry.items()):
        if is_own(spec) and spec.namespace is None and f"{NUMPY}{name}" not in gymnasium.registry:
            register_numpy(name, 1.0)
    return failed


def is_own(spec: EnvSpec) -> bool:
    """Return whether a registration is that of a task, under the id for tensors."""
    return "env_cfg_entry_point" in spec.kwargs


def register_numpy(task_id: str, action_scale: float) -> None:
    """Register a task's id in numpy; see :func:`envlab.registry.register`."""
    import gymnasium  # see above

    gymnasium.register(
        id=f"{NUMPY}{task_id}",
        entry_point=f"{_NUMPY_FACE}NumpyEnv",
        vector_entry_point=f"{_NUMPY_FACE}NumpyVectorEnv",
        disable_env_checker=True,
        kwargs={"task": task_id, "action_scale": action_scale},
    )


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
