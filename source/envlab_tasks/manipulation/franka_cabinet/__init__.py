"""Pull a drawer out: Isaac Lab's direct task."""

import gymnasium

gymnasium.register(
    id="Isaac-Franka-Cabinet-Direct-v0",
    entry_point=f"{__name__}.franka_cabinet_env:FrankaCabinetEnv",
    vector_entry_point=f"{__name__}.franka_cabinet_env:FrankaCabinetEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.franka_cabinet_env:FrankaCabinetEnvCfg",
        **{
            f"{library}_cfg_entry_point": f"{__name__}.agents:{library}_ppo_cfg.yaml"
            for library in ("rsl_rl", "rl_games", "skrl")
        },
        "description": "Pull the top drawer of a cabinet out with a Panda, all joints moved alike.",
    },
)
