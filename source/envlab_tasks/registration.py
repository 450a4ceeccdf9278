"""Registration of this package's tasks, by Isaac Lab's keywords."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.registry import register as register_ids

MANAGER_ENV = "envlab.envs:ManagerEnv"


def register(
    package: str,
    task_id: str,
    cfg: str,
    description: str,
    *,
    env: str = MANAGER_ENV,
    libraries: Sequence[str] = ("rsl_rl", "rl_games", "skrl"),
    agents: str = "{}_ppo_cfg",
    action_scale: float = 1.0,
    scripted: str = "",
    **others: str,
) -> None:
    """Register a task by strings alone, so that listing tasks imports neither torch nor MuJoCo.

    Args:
        package: The task's package, ``envlab_tasks.<family>.<task>``.
        task_id: The task's id.
        cfg: Its configuration in the package, ``module:Class``.
        description: Its description in the list of tasks.
        env: Its class, ``module:Class``; one that begins with a dot is in the package.
        libraries: Libraries with an agent for it, the default one first.
        agents: A library's file in the package's ``agents``, without ``.yaml``; ``{}`` is the
            library.
        action_scale: The action that 1 means in numpy.
        scripted: A policy by hand for ``envlab scripted``, in the package, ``module:Class``.
        **others: Files with other names, and of further agents: ``skrl_mappo="skrl_mappo_cfg"``.
    """
    files = {library: agents.format(library) for library in libraries} | others  # in this order
    entry_point = f"{package}{env}" if env.startswith(".") else env
    register_ids(
        id=task_id,
        entry_point=entry_point,
        kwargs={
            "env_cfg_entry_point": f"{package}.{cfg}",
            **{f"{key}_cfg_entry_point": f"{package}.agents:{files[key]}.yaml" for key in files},
            "description": description,
            **({"scripted_entry_point": f"{package}.{scripted}"} if scripted else {}),
        },
        action_scale=action_scale,
    )
