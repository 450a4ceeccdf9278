"""A quadruped that gets up: MuJoCo Playground's Go1Getup."""

from envlab_tasks.registration import register

register(
    __name__,
    "Playground-Go1Getup-v0",
    "env_cfg:Go1GetupEnvCfg",
    "A quadruped, Unitree Go1, gets up after a fall by Playground's rewards.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)
