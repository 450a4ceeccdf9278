"""Bring the hand of an arm to a pose in space."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Reach-Franka-v0",
    "reach_env_cfg:FrankaReachEnvCfg",
    "Move a Panda's hand to a pose, controlled by joint positions.",
)
register(
    __name__,
    "Isaac-Reach-Franka-Play-v0",
    "reach_env_cfg:FrankaReachPlayEnvCfg",
    "Isaac-Reach-Franka-v0 without noise, for playing.",
)
register(
    __name__,
    "Isaac-Reach-Franka-IK-Abs-v0",
    "reach_env_cfg:FrankaReachIkAbsEnvCfg",
    "Move a Panda's hand to a pose, controlled by poses of the hand.",
)
register(
    __name__,
    "Isaac-Reach-Franka-IK-Abs-Play-v0",
    "reach_env_cfg:FrankaReachIkAbsPlayEnvCfg",
    "Isaac-Reach-Franka-IK-Abs-v0 without noise, for playing.",
)
register(
    __name__,
    "Isaac-Reach-Franka-IK-Rel-v0",
    "reach_env_cfg:FrankaReachIkRelEnvCfg",
    "Move a Panda's hand to a pose, controlled by displacements of the hand.",
)
register(
    __name__,
    "Isaac-Reach-Franka-IK-Rel-Play-v0",
    "reach_env_cfg:FrankaReachIkRelPlayEnvCfg",
    "Isaac-Reach-Franka-IK-Rel-v0 without noise, for playing.",
)
register(
    __name__,
    "Isaac-Reach-UR10-v0",
    "ur10_env_cfg:UR10ReachEnvCfg",
    "Move the end of a UR10 to a pose, controlled by joint positions.",
    agents="ur10_{}_ppo_cfg",
)
register(
    __name__,
    "Isaac-Reach-UR10-Play-v0",
    "ur10_env_cfg:UR10ReachPlayEnvCfg",
    "Isaac-Reach-UR10-v0 without noise, for playing.",
    agents="ur10_{}_ppo_cfg",
)
