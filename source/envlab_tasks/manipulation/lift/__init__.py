"""Grasp a cube, lift it, and bring it to a place."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Lift-Cube-Franka-v0",
    "lift_env_cfg:FrankaCubeLiftEnvCfg",
    "Lift a cube with a Panda, controlled by joint positions.",
)
register(
    __name__,
    "Isaac-Lift-Cube-Franka-Play-v0",
    "lift_env_cfg:FrankaCubeLiftPlayEnvCfg",
    "Isaac-Lift-Cube-Franka-v0 with few environments, for playing.",
)
register(
    __name__,
    "Isaac-Lift-Cube-Franka-IK-Abs-v0",
    "lift_env_cfg:FrankaCubeLiftIkAbsEnvCfg",
    "Lift a cube with a Panda, controlled by poses of its hand.",
)
register(
    __name__,
    "Isaac-Lift-Cube-Franka-IK-Rel-v0",
    "lift_env_cfg:FrankaCubeLiftIkRelEnvCfg",
    "Lift a cube with a Panda, controlled by displacements of its hand.",
)
