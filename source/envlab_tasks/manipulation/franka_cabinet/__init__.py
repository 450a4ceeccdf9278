"""Pull a drawer out: Isaac Lab's direct task."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Franka-Cabinet-Direct-v0",
    "franka_cabinet_env:FrankaCabinetEnvCfg",
    "Pull the top drawer of a cabinet out with a Panda, all joints moved alike.",
    env=".franka_cabinet_env:FrankaCabinetEnv",
)
