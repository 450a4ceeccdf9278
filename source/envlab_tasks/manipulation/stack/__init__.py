"""Stack three cubes."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Stack-Cube-Franka-v0",
    "stack_env_cfg:FrankaCubeStackEnvCfg",
    "Stack three cubes with a Panda, controlled by joint positions.",
    libraries=["rsl_rl"],
)
