"""Grasp the handle of a drawer and pull it open."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

gymnasium.register(
    id="Isaac-Open-Drawer-Franka-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.open_drawer_env_cfg:FrankaCabinetEnvCfg",
        **_AGENTS,
        "description": "Open a cabinet's drawer with a Panda, controlled by joint positions.",
    },
)

gymnasium.register(
    id="Isaac-Open-Drawer-Franka-Play-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.open_drawer_env_cfg:FrankaCabinetPlayEnvCfg",
        **_AGENTS,
        "description": "Isaac-Open-Drawer-Franka-v0 with few environments, for playing.",
    },
)
