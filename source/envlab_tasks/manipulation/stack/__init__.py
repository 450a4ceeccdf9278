"""Stack three cubes."""

import gymnasium

gymnasium.register(
    id="Isaac-Stack-Cube-Franka-v0",
    entry_point="envlab.envs:ManagerEnv",
    vector_entry_point="envlab.envs:ManagerEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.stack_env_cfg:FrankaCubeStackEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "Stack three cubes with a Panda, controlled by joint positions.",
    },
)
