"""Registration of this package's tasks: Gymnasium's, by Isaac Lab's keywords."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium

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
        **others: Files with other names, and of further agents: ``skrl_mappo="skrl_mappo_cfg"``.
    """
    files = {library: agents.format(library) for library in libraries} | others  # in this order
    entry_point = f"{package}{env}" if env.startswith(".") else env
    gymnasium.register(
        id=task_id,
        entry_point=entry_point,
        vector_entry_point=entry_point,
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{package}.{cfg}",
            **{f"{key}_cfg_entry_point": f"{package}.agents:{files[key]}.yaml" for key in files},
            "description": description,
        },
    )
