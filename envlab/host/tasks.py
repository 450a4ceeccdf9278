"""``gym:<id>``: any installed Gymnasium environment as a task."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from envlab.errors import UnknownTaskError, did_you_mean
from envlab.task import NUMPY, Task, discover, import_named, is_own, load_entry_point

PREFIX = "gym:"

_AGENTS = "envlab_tasks.gym.agents"
_AGENT_FILES = {
    "box": {name: f"{name}_ppo_cfg.yaml" for name in ("rsl_rl", "rl_games", "skrl")},
    **{
        kind: {name: f"{name}_{kind}_ppo_cfg.yaml" for name in ("rl_games", "skrl")}
        for kind in ("discrete", "multidiscrete")
    },
}
"""Files by kind of action; see :class:`envlab.host.spaces.Actions`."""


@dataclass(frozen=True, kw_only=True)
class GymTask(Task):
    """A task that Gymnasium, not envlab, registers."""

    spec: EnvSpec = field(repr=False)
    """Gymnasium's registration."""
    shares_agents = True

    @property
    def experiment_name(self) -> str:
        """Folder of the runs: the id, in characters allowed for a folder."""
        return re.sub(r"[^\w.=,+-]+", "_", self.id.lower())

    def make(self, cfg: Any, **kwargs: Any) -> Any:
        """Build the environment with a configuration."""
        return load_entry_point("envlab.envs.gym_bridge:GymEnv")(self.spec, cfg, **kwargs)

    def modules_of(self, cfg: Any) -> list[str]:
        """Return the modules that a configuration has the environment import.

        A class has such keywords in ``MODULE_KEYWORDS``, with the packages that any may name.
        """
        keywords = getattr(load_entry_point(self.spec.entry_point), "MODULE_KEYWORDS", {})
        given = {name: str(cfg.kwargs.get(name) or "") for name in keywords}
        return [
            module
            for name, module in given.items()
            if module and module.partition(".")[0] not in keywords[name]
        ]

    def suited(self, make_cfg: Callable[[], Any]) -> GymTask:
        """Return this task with agent configurations for the kind of its actions.

        Args:
            make_cfg: Returns the environment's configuration, which may decide on it.

        Raises:
            ConfigurationError: If the environment cannot be made.
        """
        kind = load_entry_point("envlab.envs.gym_bridge:action_kind")(self.spec, make_cfg())
        files = _AGENT_FILES[kind]
        agents = {f"{name}_cfg_entry_point": f"{_AGENTS}:{file}" for name, file in files.items()}
        return dataclasses.replace(self, libraries=list(files), kwargs={**self.kwargs, **agents})


def find_gym_task(task_id: str) -> GymTask:
    """Return the task ``gym:Id-v0`` or ``gym:module:Id-v0``, whose module is imported first.

    Raises:
        UnknownTaskError: If there is none, with the nearest ids.
    """
    module, _, name = task_id.removeprefix(PREFIX).rpartition(":")
    if module:
        import_named(module, task_id)
    known = gymnasium.registry
    if name not in known:
        discover()  # to distinguish envlab's own tasks from unknown ones
    spec = known.get(name)
    if spec is None:
        names = [known_id for known_id in known if not _is_ours(known[known_id])]
        raise UnknownTaskError(
            f"Gymnasium has no environment {name!r}.{did_you_mean(name, names)} One of a package "
            "that registers it on import is gym:<module>:<id>."
        )
    if _is_ours(spec):
        own = name.removeprefix(NUMPY)
        raise UnknownTaskError(f"{name!r} is envlab's own task. Write --task={own}.")
    return GymTask(
        id=f"{PREFIX}{f'{module}:' if module else ''}{name}",
        kind="gymnasium",
        libraries=[],
        description=f"Gymnasium's {name}.",
        kwargs={"env_cfg_entry_point": lambda: make_cfg(spec)},
        spec=spec,
    )


def make_cfg(spec: EnvSpec) -> Any:
    """Return the environment configuration of a registration, including its keywords' defaults.

    Raises:
        ConfigurationError: If a package that it needs is missing.
    """
    from envlab.host.maker import known_kwargs

    return load_entry_point("envlab.envs.gym_bridge:GymEnvCfg")(kwargs=known_kwargs(spec))


def _is_ours(spec: EnvSpec) -> bool:
    return is_own(spec) or f"{spec.namespace}/" == NUMPY
