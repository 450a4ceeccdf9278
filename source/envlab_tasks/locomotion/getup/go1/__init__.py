"""A quadruped that gets up: MuJoCo Playground's Go1Getup."""

import gymnasium

gymnasium.register(
    id="Playground-Go1Getup-v0",
    entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    vector_entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:Go1GetupEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "A quadruped, Unitree Go1, gets up after a fall by Playground's rewards.",
    },
)
