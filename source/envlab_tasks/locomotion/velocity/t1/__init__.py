"""A humanoid that follows velocity commands: Booster T1, by MuJoCo Playground's joystick task."""

import gymnasium

gymnasium.register(
    id="Playground-T1JoystickFlatTerrain-v0",
    entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    vector_entry_point="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    disable_env_checker=True,
    order_enforce=False,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:T1JoystickEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_ppo_cfg.yaml",
        "description": "A humanoid, Booster T1, walks by Playground's rewards on flat ground.",
    },
)
