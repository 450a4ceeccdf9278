"""A humanoid that gets up: Unitree G1 with 29 joints, by the rewards of Playground's Go1Getup."""

import gymnasium

gymnasium.register(
    id="Envlab-Getup-Flat-Unitree-G1-v0",
    entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    vector_entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:G1GetupEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "A humanoid, Unitree G1 with 29 joints, gets up after a fall.",
    },
)
