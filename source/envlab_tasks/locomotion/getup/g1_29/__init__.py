"""A humanoid that gets up: Unitree G1 with 29 joints, by the rewards of Playground's Go1Getup."""

from envlab_tasks.registration import register

register(
    __name__,
    "Envlab-Getup-Flat-Unitree-G1-v0",
    "env_cfg:G1GetupEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, gets up after a fall.",
    env="envlab_tasks.locomotion.playground_env:PlaygroundEnv",
    libraries=["rsl_rl"],
)
