"""Tasks that a project for Isaac Lab registers, registered again for the ways to train of envlab.

Importing the project's package registers its ids with Gymnasium. The one that is asked for is then
registered with :class:`~envlab_isaaclab.env.IsaacLabEnv` in place of Isaac Lab's environment, which
it makes, and with agents whose names are those of the installed rsl_rl.
"""

from __future__ import annotations

import functools
import importlib
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from envlab.config import Override, parse_overrides
from envlab.envs.cfg import NanGuardCfg
from envlab.errors import ConfigurationError, EnvlabError, UnknownTaskError, did_you_mean
from envlab.registry import AGENT_SUFFIX, discover, register
from envlab.task import NUMPY
from envlab_bridge.errors import not_installed, own_line
from envlab_isaaclab.old_agents import NETWORKS, new_configuration, new_paths
from envlab_isaaclab.project import REGISTERS, add_packages, modules, registering
from envlab_isaaclab.refusals import sentence_of
from envlab_isaaclab.settings import new_from, settings_of
from envlab_isaaclab.upstream import is_isaac_lab

logger = logging.getLogger(f"envlab.{__name__}")

ENV = "envlab_isaaclab.env:IsaacLabEnv"
_SECOND = ("critic", "teacher")
"""Networks that observe the group of the same name, if the task has it, as in rsl_rl 3."""
_AGENT = "agent."
_MOST_TOLD = 12
"""Tasks that a sentence names."""
_OF_ISAAC_LAB = ("isaaclab_tasks", "isaaclab_mimic")
"""Its packages that register tasks."""


class TaskSettings:
    """Makes the configuration of a task's environment, as its registration names it."""

    def __init__(self, entry_point: Any) -> None:
        self._entry_point = entry_point
        self.__module__ = _module_of(entry_point)  # whose code the task is

    def __call__(self) -> Any:
        """Return the settings, for :func:`envlab_isaaclab.settings.apply`."""
        cfg = self.made()
        vars(cfg).pop("recorders", None)  # they write episodes by Isaac Lab's own file format
        return settings_of(cfg, nan_guard=NanGuardCfg())

    def made(self) -> Any:
        """Return a new object of the task's own class.

        Raises:
            ConfigurationError: If the project's code fails.
        """
        return _made(self._entry_point)


class AgentSettings:
    """Makes a task's configuration for rsl_rl, of whichever release, for the installed one."""

    def __init__(self, entry_point: Any, task: TaskSettings, experiment_name: str) -> None:
        self._entry_point, self._task, self._name = entry_point, task, experiment_name
        self.__module__ = _module_of(entry_point)

    def __call__(self) -> dict[str, Any]:
        """Return its values by today's names.

        Raises:
            ConfigurationError: If it names a network or an algorithm that rsl_rl 5 does not have.
        """
        made = _made(self._entry_point)
        values: dict[str, Any] = dict(made) if isinstance(made, Mapping) else made.to_dict()
        if "policy" in values:
            values = new_configuration(values)
        groups = _groups(self._task.made())
        observed = {one: [one] for one in _SECOND if one in values and one in groups}
        return values | {
            "experiment_name": values.get("experiment_name") or self._name,
            "obs_groups": observed | (values.get("obs_groups") or {}),
        }


def _made(entry_point: Any) -> Any:
    """Return a new configuration, which the project's code makes."""
    try:
        return new_from(entry_point)
    except EnvlabError:
        raise
    except Exception as error:  # of the project's code, in any form
        logger.debug("Making a configuration failed.", exc_info=True)
        raise ConfigurationError(
            sentence_of(error)
            or f"The project's configuration {_name_of(entry_point)} cannot be made: "
            f"{_told(error)} Correct the project, or take another of its tasks."
        ) from error


def _name_of(entry_point: Any) -> str:
    is_named = isinstance(entry_point, str)
    return entry_point if is_named else getattr(entry_point, "__qualname__", str(type(entry_point)))


def _told(error: Exception) -> str:
    why = " ".join(str(error).split()).rstrip(".")
    return f"{own_line(error)}: {type(error).__name__}: {why}."


def register_task(folder: str, task_id: str) -> str:
    """Import a project's packages, register one of its tasks for envlab, and return its id.

    Args:
        folder: The project's checkout, or Isaac Lab's.
        task_id: Its id; ``-v0`` may be left out.

    Raises:
        ConfigurationError: If the folder has no package that registers a task.
        UnknownTaskError: If it registers no such task, with the nearest ids, or why not.
    """
    found, failures = registered(folder)
    spec = found.get(task_id) or found.get(f"{task_id}-v0")
    if spec is None:
        own = own_tasks(folder, found)
        raise UnknownTaskError(
            f"{folder} registers no task {task_id!r}.{did_you_mean(task_id, found)}"
            + (f" Its tasks are {', '.join(own)}." if len(own) < _MOST_TOLD else "")
            + "".join(f" {sentence}" for sentence in told(failures))
        )
    _register(spec)
    return spec.id


def told(failures: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason why modules were not imported; they often have one."""
    modules: dict[str, list[str]] = {}
    for module, why in failures.items():
        modules.setdefault(why, []).append(module)
    return [
        f"{names[0]}{f' (and {len(names) - 1} more)' * (len(names) > 1)} is not imported: {why}"
        for why, names in modules.items()
    ]


def networks_of(task_id: str, key: str | None) -> tuple[str, str]:
    """Return the networks of a task's agent for rsl_rl, the acting one first.

    Args:
        task_id: The task.
        key: Registry key of the agent's configuration; None: the usual one.
    """
    key = f"{(key or 'rsl_rl').removesuffix(AGENT_SUFFIX)}{AGENT_SUFFIX}"
    agent = gymnasium.spec(task_id).kwargs.get(key)
    values = agent() if isinstance(agent, AgentSettings) else {}
    return NETWORKS["StudentTeacher" if "student" in values else "ActorCritic"]


def renamed(overrides: list[Override], networks: tuple[str, str]) -> list[Override]:
    """Return overrides in which settings of agents for rsl_rl 2 and 3 have today's names.

    Args:
        overrides: Parsed overrides.
        networks: Names of the agent's networks, the acting one first.
    """
    return parse_overrides(new for one in overrides for new in _renamed(one, networks))


def _renamed(override: Override, networks: tuple[str, str]) -> list[str | Override]:
    key = override.key_or_group
    if key == f"{_AGENT}policy.class_name":
        now = " and ".join(f"agent.{network}.class_name=RNNModel" for network in networks)
        raise ConfigurationError(
            f"Override '{override.input_line}' cannot be applied: each network of rsl_rl 5 has a "
            f"class, such as {now}. Write those."
        )
    paths = new_paths(key.removeprefix(_AGENT), networks) if key.startswith(_AGENT) else [key]
    if paths == [key.removeprefix(_AGENT)] or override.input_line is None:
        return [override]
    return [override.input_line.replace(key, f"{_AGENT}{path}", 1) for path in paths]


@functools.cache
def registered(folder: str) -> tuple[dict[str, EnvSpec], dict[str, str]]:
    """Import a project's modules that register tasks; return these by id, and errors by module.

    Raises:
        ConfigurationError: If there are none.
    """
    discover()  # first, as ids of Isaac Lab's are also ours
    before, failures = dict(gymnasium.registry), {}
    add_packages(Path(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Gymnasium, on these ids
        for module in registering(modules(Path(folder).resolve())):
            try:
                importlib.import_module(module)
            except ImportError as error:
                failures[module] = not_installed(error)
            except EnvlabError:
                raise
            except Exception as error:  # of the project's code, whose other modules may be fine
                failures[module] = _told(error)
    found = {
        name: spec
        for name, spec in gymnasium.registry.items()
        if spec is not before.get(name) and REGISTERS in spec.kwargs
    }
    if not found and not failures:
        raise ConfigurationError(
            f"--isaaclab is {folder!r}, in which no package registers a task: no file below it, "
            "source/*, exts/* or src/ has gymnasium.register(..., kwargs={'env_cfg_entry_point': "
            "...}). Give the folder of a project's checkout."
        )
    return found, failures


def own_tasks(folder: str, found: dict[str, EnvSpec]) -> dict[str, EnvSpec]:
    """Return a project's tasks without Isaac Lab's, which are registered as it imports them.

    Of Isaac Lab's own folder, all.
    """
    if is_isaac_lab(folder):
        return found
    return {
        name: spec
        for name, spec in found.items()
        if _module_of(spec.kwargs[REGISTERS]).partition(".")[0] not in _OF_ISAAC_LAB
    }


def _register(spec: EnvSpec) -> None:
    """Register a task of Isaac Lab's for envlab, under its id."""
    task = TaskSettings(spec.kwargs[REGISTERS])
    name = spec.id.lower().removesuffix("-v0").replace("-", "_")
    kwargs: dict[str, Any] = {
        key: AgentSettings(value, task, name) if key.startswith("rsl_rl") else value
        for key, value in spec.kwargs.items()
        if key.endswith(AGENT_SUFFIX)
    }
    kwargs |= {
        REGISTERS: task,
        "isaaclab_entry_point": spec.entry_point,
        "kind": "isaaclab",
        "description": "of a project for Isaac Lab",
    }
    for known in (spec.id, f"{NUMPY}{spec.id}"):
        gymnasium.registry.pop(known, None)
    register(spec.id, ENV, kwargs=kwargs)


def _groups(cfg: Any) -> set[str]:
    """Return the groups of observations that an environment's configuration names."""
    observations = getattr(cfg, "observations", None)
    if observations is None:  # a direct environment's
        return {"critic"} if getattr(cfg, "state_space", 0) else set()
    return {name for name, value in vars(observations).items() if value is not None}


def _module_of(entry_point: Any) -> str:
    text = entry_point if isinstance(entry_point, str) else str(entry_point.__module__)
    return text.partition(":")[0]
