"""A humanoid that follows velocity commands: Booster T1, by MuJoCo Playground's joystick task."""

from envlab_tasks.registration import register

register(
    __name__,
    "Playground-T1JoystickFlatTerrain-v0",
    "env_cfg:T1JoystickEnvCfg",
    "A humanoid, Booster T1, walks by Playground's rewards on flat ground.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)
