"""A quadruped that trots by velocity commands: Boston Dynamics Spot."""

import gymnasium

for _play, _description in (
    ("", "A quadruped, Spot, follows fast velocity commands at a trot on cobblestones."),
    ("Play", "Spot on few tiles, with few robots, for playing."),
):
    gymnasium.register(
        id=f"Isaac-Velocity-Flat-Spot{_play and '-' + _play}-v0",
        entry_point="envlab.envs:ManagerEnv",
        vector_entry_point="envlab.envs:ManagerEnv",
        disable_env_checker=True,
        order_enforce=False,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.flat_env_cfg:SpotFlat{_play}EnvCfg",
            "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_flat_ppo_cfg.yaml",
            "skrl_cfg_entry_point": f"{__name__}.agents:skrl_flat_ppo_cfg.yaml",
            "description": _description,
        },
    )
