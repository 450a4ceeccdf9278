"""Tasks in which an arm reaches, grasps and moves; the table of their tasks."""

from envlab_tasks.registration import register

FRANKA_CABINET = f"{__name__}.franka_cabinet"
register(
    FRANKA_CABINET,
    "Isaac-Franka-Cabinet-Direct-v0",
    "franka_cabinet_env:FrankaCabinetEnvCfg",
    "Pull the top drawer of a cabinet out with a Panda, all joints moved alike.",
    env=".franka_cabinet_env:FrankaCabinetEnv",
    scripted="scripted:PullingHand",
    rsl_rl_distillation="rsl_rl_distillation_cfg",
)

LIFT = f"{__name__}.lift"
register(
    LIFT,
    "Isaac-Lift-Cube-Franka-v0",
    "lift_env_cfg:FrankaCubeLiftEnvCfg",
    "Lift a cube with a Panda, controlled by joint positions.",
    scripted="scripted:LiftingHand",
    rsl_rl_distillation="rsl_rl_distillation_cfg",
)
register(
    LIFT,
    "Isaac-Lift-Cube-Franka-Play-v0",
    "lift_env_cfg:FrankaCubeLiftPlayEnvCfg",
    "Isaac-Lift-Cube-Franka-v0 with few environments, for playing.",
)
register(
    LIFT,
    "Isaac-Lift-Cube-Franka-IK-Abs-v0",
    "lift_env_cfg:FrankaCubeLiftIkAbsEnvCfg",
    "Lift a cube with a Panda, controlled by poses of its hand.",
    scripted="scripted:LiftingHand",
)
register(
    LIFT,
    "Isaac-Lift-Cube-Franka-IK-Rel-v0",
    "lift_env_cfg:FrankaCubeLiftIkRelEnvCfg",
    "Lift a cube with a Panda, controlled by displacements of its hand.",
    scripted="scripted:LiftingHand",
)

LIFT_YAM = f"{__name__}.lift_yam"
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam",
    "lift_yam_env_cfg:YamLiftCubeEnvCfg",
    "Lift a cube to places in the air with a YAM arm.",
    libraries=["rsl_rl"],
)
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam-Play",
    "lift_yam_env_cfg:YamLiftCubePlayEnvCfg",
    "Mjlab-Lift-Cube-Yam with few environments and more places, for playing.",
    libraries=["rsl_rl"],
)
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam-Rgb",
    "camera_env_cfg:YamLiftCubeRgbEnvCfg",
    "Lift a cube that a camera at the wrist of a YAM arm sees in colours.",
    libraries=["rsl_rl"],
    agents="{}_camera_ppo_cfg",
)
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam-Rgb-Play",
    "camera_env_cfg:YamLiftCubeRgbPlayEnvCfg",
    "Mjlab-Lift-Cube-Yam-Rgb with few environments and more places, for playing.",
    libraries=["rsl_rl"],
    agents="{}_camera_ppo_cfg",
)
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam-Depth",
    "camera_env_cfg:YamLiftCubeDepthEnvCfg",
    "Lift a cube that a camera at the wrist of a YAM arm sees by depths.",
    libraries=["rsl_rl"],
    agents="{}_camera_ppo_cfg",
)
register(
    LIFT_YAM,
    "Mjlab-Lift-Cube-Yam-Depth-Play",
    "camera_env_cfg:YamLiftCubeDepthPlayEnvCfg",
    "Mjlab-Lift-Cube-Yam-Depth with few environments and more places, for playing.",
    libraries=["rsl_rl"],
    agents="{}_camera_ppo_cfg",
)
register(
    LIFT_YAM,
    "Mjlab-Multi-Cube-Seg-Yam",
    "multi_cube_env_cfg:YamMultiCubeEnvCfg",
    "Lift the one of three cubes that a mask in the wrist camera's image tells.",
    libraries=["rsl_rl"],
    agents="{}_multi_cube_ppo_cfg",
)
register(
    LIFT_YAM,
    "Mjlab-Multi-Cube-Seg-Yam-Play",
    "multi_cube_env_cfg:YamMultiCubePlayEnvCfg",
    "Mjlab-Multi-Cube-Seg-Yam with few environments and more places, for playing.",
    libraries=["rsl_rl"],
    agents="{}_multi_cube_ppo_cfg",
)

OPEN_DRAWER = f"{__name__}.open_drawer"
register(
    OPEN_DRAWER,
    "Isaac-Open-Drawer-Franka-v0",
    "open_drawer_env_cfg:FrankaCabinetEnvCfg",
    "Open a cabinet's drawer with a Panda, controlled by joint positions.",
)
register(
    OPEN_DRAWER,
    "Isaac-Open-Drawer-Franka-Play-v0",
    "open_drawer_env_cfg:FrankaCabinetPlayEnvCfg",
    "Isaac-Open-Drawer-Franka-v0 with few environments, for playing.",
)

REACH = f"{__name__}.reach"
register(
    REACH,
    "Isaac-Reach-Franka-v0",
    "reach_env_cfg:FrankaReachEnvCfg",
    "Move a Panda's hand to a pose, controlled by joint positions.",
)
register(
    REACH,
    "Isaac-Reach-Franka-Play-v0",
    "reach_env_cfg:play",
    "Isaac-Reach-Franka-v0 without noise, for playing.",
)
register(
    REACH,
    "Isaac-Reach-Franka-IK-Abs-v0",
    "reach_env_cfg:ik_abs",
    "Move a Panda's hand to a pose, controlled by poses of the hand.",
    scripted="scripted:ReachingHand",
)
register(
    REACH,
    "Isaac-Reach-Franka-IK-Abs-Play-v0",
    "reach_env_cfg:ik_abs_play",
    "Isaac-Reach-Franka-IK-Abs-v0 without noise, for playing.",
    scripted="scripted:ReachingHand",
)
register(
    REACH,
    "Isaac-Reach-Franka-IK-Rel-v0",
    "reach_env_cfg:ik_rel",
    "Move a Panda's hand to a pose, controlled by displacements of the hand.",
    scripted="scripted:ReachingHand",
)
register(
    REACH,
    "Isaac-Reach-Franka-IK-Rel-Play-v0",
    "reach_env_cfg:ik_rel_play",
    "Isaac-Reach-Franka-IK-Rel-v0 without noise, for playing.",
    scripted="scripted:ReachingHand",
)
register(
    REACH,
    "Isaac-Reach-Franka-OSC-v0",
    "reach_env_cfg:osc",
    "Move a Panda's hand to a pose by operational-space control of its motors.",
    libraries=["rsl_rl"],
)
register(
    REACH,
    "Isaac-Reach-Franka-OSC-Play-v0",
    "reach_env_cfg:osc_play",
    "Isaac-Reach-Franka-OSC-v0 without noise, for playing.",
    libraries=["rsl_rl"],
)
register(
    REACH,
    "Isaac-Reach-UR10-v0",
    "ur10_env_cfg:UR10ReachEnvCfg",
    "Move the end of a UR10 to a pose, controlled by joint positions.",
    agents="ur10_{}_ppo_cfg",
)
register(
    REACH,
    "Isaac-Reach-UR10-Play-v0",
    "ur10_env_cfg:play",
    "Isaac-Reach-UR10-v0 without noise, for playing.",
    agents="ur10_{}_ppo_cfg",
)

STACK = f"{__name__}.stack"
register(
    STACK,
    "Isaac-Stack-Cube-Franka-v0",
    "stack_env_cfg:FrankaCubeStackEnvCfg",
    "Stack three cubes with a Panda, controlled by joint positions.",
    libraries=["rsl_rl"],
)
