"""Grasp the handle of a drawer and pull it open."""

import gymnasium

_AGENTS = {
    f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
    for library in ("rsl_rl", "rl_games", "skrl")
}

for _id, _cfg, _description in (
    (
        "Isaac-Open-Drawer-Franka-v0",
        "FrankaCabinetEnvCfg",
        "Open a cabinet's drawer with a Panda, controlled by joint positions.",
    ),
    (
        "Isaac-Open-Drawer-Franka-Play-v0",
        "FrankaCabinetPlayEnvCfg",
        "Isaac-Open-Drawer-Franka-v0 with few environments, for playing.",
    ),
):
    gymnasium.register(
        id=_id,
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.open_drawer_env_cfg:{_cfg}",
            **_AGENTS,
            "description": _description,
        },
    )
