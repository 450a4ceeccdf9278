"""Tasks as data: Gymnasium's registry is the store, and listing imports neither torch nor MuJoCo.

A task package registers itself with strings only, with Isaac Lab's own keywords::

    envlab.registry.register(
        id="Isaac-Cartpole-v0",
        entry_point="envlab.envs:ManagerEnv",
        kwargs={
            "env_cfg_entry_point": "envlab_tasks.classic.cartpole.cartpole_env_cfg:CartpoleEnvCfg",
            "rsl_rl_cfg_entry_point": "envlab_tasks.classic.cartpole.agents:rsl_rl_ppo_cfg.yaml",
            "description": "Balance a pole on a cart.",
        },
    )

Suites of tasks, including envlab's own, register by being installed: see
:func:`envlab.task.discover`.
"""

from __future__ import annotations

import importlib
import importlib.resources
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envlab.errors import ConfigurationError, UnknownTaskError, did_you_mean
from envlab.task import (
    NUMPY,
    Task,
    discover,
    import_named,
    is_own,
    load_entry_point,
    register_numpy,
)

if TYPE_CHECKING:  # takes 0.1 s, which --help does not need
    from gymnasium.envs.registration import EnvSpec

TERMS = "envlab.envs.mdp"
"""Package of envlab's objects that environment configurations name."""
CONTENT = "envlab_tasks"
"""Package of envlab's tasks."""
AGENT_SUFFIX = "_cfg_entry_point"
SCRIPTED = "scripted"
"""Word in place of a library or checkpoint for a task's policy by hand; ``scripted_entry_point`` of
its registration names that, ``module:Class``."""
_ISAAC_LAB_3 = {
    "IsaacContrib-": "Isaac-",
    "-Reorient-": "-Repose-",
    "-Unitree": "-Unitree-",
    "-Anymal": "-Anymal-",
    "-Open-Drawer-Franka-Direct": "-Franka-Cabinet-Direct",
    "-Pendulum-MARL-": "-Cart-Double-Pendulum-",
    "-Shadow-Handover-": "-Shadow-Hand-Over-",
}
"""Parts of ids in Isaac Lab 3.0.0, and the same in 2.3.2."""
_FIND_GYM_TASK = "envlab.host.tasks:find_gym_task"
"""Function that finds ``gym:<id>``; by name, because it is in a higher layer."""


def register(
    id: str,
    entry_point: str,
    *,
    kwargs: dict[str, Any],
    action_scale: float = 1.0,
) -> None:
    """Register a task under its id, for tensors, and under ``numpy/<id>``, for Gymnasium's users.

    Args:
        id: Such as ``My-Reach-v0``.
        entry_point: The environment's class, ``module:Class``.
        kwargs: Strings alone, by Isaac Lab's keywords, so that listing tasks imports no simulator.
        action_scale: In numpy, where the task's actions have no bounds, the action that 1 means.
    """
    import gymnasium  # see above

    gymnasium.register(
        id=id,
        entry_point=entry_point,
        vector_entry_point=entry_point,
        disable_env_checker=True,
        order_enforce=False,
        kwargs=kwargs,
    )
    register_numpy(id, action_scale)


def list_tasks(keyword: str | None = None) -> list[Task]:
    """Return the registered tasks by id, those whose id or description contains ``keyword``."""
    tasks = [_task(spec) for spec in _specs().values()]
    if keyword:
        wanted = keyword.lower()
        tasks = [task for task in tasks if wanted in f"{task.id} {task.description}".lower()]
    return sorted(tasks, key=lambda task: task.id)


def scripted_policy(task: Task) -> Callable[[Any], Any]:
    """Return the class of a task's policy by hand: ``Class(env).act()`` returns actions.

    Raises:
        ConfigurationError: If the task has none.
    """
    keyword = f"{SCRIPTED}_entry_point"
    entry_point = task.kwargs.get(keyword)
    if entry_point is None:
        able = [one.id for one in list_tasks() if keyword in one.kwargs]
        raise ConfigurationError(
            f"{task.id} has no scripted policy; {', '.join(able)} have one. Name one of them, or "
            f"register yours as {keyword}."
        )
    found: Callable[[Any], Any] = load_entry_point(entry_point)
    return found


def trusted_modules() -> frozenset[str]:
    """Return the packages of registered tasks, whose code a file may name: see ``Trust``.

    Of envlab itself these are :data:`TERMS` and :data:`CONTENT`, which environments' configurations
    name: the rest, including guests, imports modules by name, starts processes and writes files.
    """
    entry_points = [
        value
        for task in list_tasks()
        for key, value in task.kwargs.items()
        if key.endswith(AGENT_SUFFIX)
    ]
    return frozenset({TERMS, *without_guests(packages_of(entry_points))})


def without_guests(packages: Iterable[str]) -> set[str]:
    """Return packages except envlab's own, of which files may name only the tasks."""
    own = f"{__package__}_"
    return {name for name in packages if name == CONTENT or not name.startswith(own)}


def packages_of(entry_points: Iterable[Any]) -> set[str]:
    """Return the top-level packages, except envlab, of entry points given as text or objects."""
    modules = [
        entry_point.partition(":")[0]
        if isinstance(entry_point, str)
        else str(getattr(entry_point, "__module__", ""))
        for entry_point in entry_points
    ]
    return {module.partition(".")[0] for module in modules} - {"", __package__}


def get_task(task_id: str) -> Task:
    """Return a task by its id; ``module:Id`` imports the module first, and ``-v0`` may be left out.

    Isaac Lab 3's names lead to the tasks under Isaac Lab 2's names. ``gym:Id-v0`` is one of
    Gymnasium's environments.

    Raises:
        UnknownTaskError: With the nearest ids.
    """
    if task_id.startswith("gym:"):
        return load_entry_point(_FIND_GYM_TASK)(task_id)
    module, _, name = task_id.rpartition(":")
    if module:
        import_named(module, task_id)
    specs = _specs()
    if name.startswith(NUMPY) and name.removeprefix(NUMPY) in specs:
        raise UnknownTaskError(
            f"{name!r} is a task in numpy, for gymnasium.make alone. Write "
            f"{name.removeprefix(NUMPY)}."
        )
    older = name
    for newer_part, older_part in _ISAAC_LAB_3.items():
        older = older.replace(newer_part, older_part)
    for candidate in (name, f"{name}-v0", older, f"{older}-v0"):
        if candidate in specs:
            return _task(specs[candidate])
    if not specs:
        raise UnknownTaskError(
            f"There is no task {task_id!r}, nor any other. envlab's come with its installation, "
            "which is missing or older than the code. Run 'pip install --no-deps -e .' again."
        )
    raise UnknownTaskError(
        f"There is no task {task_id!r}.{did_you_mean(name, specs)} 'envlab list' shows all. A task "
        "of a project for Isaac Lab needs its folder: docs/from_isaac_lab.md."
    )


def load_env_cfg(task: Task) -> Any:
    """Return a new environment configuration of ``task``."""
    return load_entry_point(task.kwargs["env_cfg_entry_point"])()


def load_agent_values(task: Task, key: str) -> dict[str, Any] | None:
    """Return the agent configuration that a task registered under ``<key>_cfg_entry_point``.

    Args:
        task: The task.
        key: A library (``rsl_rl``), or with an algorithm (``skrl_mappo``).

    Returns:
        Values to lay over the library's own defaults, or None if the task has no such
        configuration.
    """
    from envlab.config import load_yaml, to_dict

    entry_point = task.kwargs.get(f"{key}{AGENT_SUFFIX}")
    if entry_point is None:
        return None
    if isinstance(entry_point, str) and entry_point.endswith((".yaml", ".yml")):
        package, _, relative = entry_point.partition(":")
        try:
            folder = Path(str(importlib.resources.files(package)))
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"The task {task.id} names {entry_point!r} as its agent, but there is no package "
                f"{package!r}."
            ) from error
        return load_yaml(folder / relative)
    return to_dict(load_entry_point(entry_point)())


def _specs() -> dict[str, EnvSpec]:
    import gymnasium  # see above

    discover()
    found = gymnasium.registry.items()
    return {name: spec for name, spec in found if is_own(spec)}


def _task(spec: EnvSpec) -> Task:
    keys = [key.removesuffix(AGENT_SUFFIX) for key in spec.kwargs if key.endswith(AGENT_SUFFIX)]
    class_name = str(spec.entry_point).rpartition(":")[2]
    kind = "direct" if "Direct" in spec.id else class_name
    if class_name == "ManagerEnv":
        kind = "manager"
    return Task(
        id=spec.id,
        kind=str(spec.kwargs.get("kind", kind)),
        libraries=[key for key in keys if key != "env"],
        description=str(spec.kwargs.get("description", "")),
        kwargs=dict(spec.kwargs),
    )


def make(
    task_id: str,
    *,
    num_envs: int | None = None,
    overrides: Sequence[str] = (),
    device: str | None = None,
    seed: int | None = None,
    render_mode: str | None = "rgb_array",
) -> Any:
    """Return the environments of a task, such as ``envlab.make("Isaac-Ant-v0", num_envs=64)``.

    Args:
        task_id: As ``envlab list`` shows it, or ``gym:<id>``; ``-v0`` may be left out.
        num_envs: Number of environments; None: the task's number, which is for a GPU.
        overrides: Changes of the configuration, as on the command line: ``["env.decimation=2"]``.
        device: ``cpu``, ``cuda`` or ``cuda:<index>``; None: a GPU if there is one.
        seed: Base seed; None: a random one.
        render_mode: ``rgb_array``: ``render()`` makes pictures, without a window; None: none.

    Raises:
        EnvlabError: If there is no such task, or a value is not valid.
    """
    from envlab.config import compose, merge

    task = get_task(task_id)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    if num_envs is not None:  # other sizes of a task may depend on it
        cfg = merge(cfg, {"scene": {"num_envs": num_envs}}, "env")
    return task.make(cfg, device=device, seed=seed, render_mode=render_mode)
