"""A quadruped that follows velocity commands: Unitree Go2."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-Unitree-Go2-v0",
    "flat_env_cfg:Go2FlatEnvCfg",
    "A quadruped, Unitree Go2, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-Unitree-Go2-Play-v0",
    "flat_env_cfg:Go2FlatPlayEnvCfg",
    "Go2 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Unitree-Go2-v0",
    "rough_env_cfg:Go2RoughEnvCfg",
    "A quadruped, Unitree Go2, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Unitree-Go2-Play-v0",
    "rough_env_cfg:Go2RoughPlayEnvCfg",
    "Go2 on rough ground with few robots and tiles, no noise, no curriculum.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Flat-Blind-Unitree-Go2-v0",
    "blind_env_cfg:Go2FlatBlindEnvCfg",
    "Go2 follows commands on flat ground without its velocity; for students.",
    libraries=["rsl_rl"],
    agents="{}_flat_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_flat_blind_distillation_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Rough-Blind-Unitree-Go2-v0",
    "blind_env_cfg:Go2RoughBlindEnvCfg",
    "Go2 follows commands on rough ground that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_blind_distillation_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-v0",
    "depth_env_cfg:Go2RoughDepthEnvCfg",
    "Go2 follows commands on rough ground by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Rough-Depth-Unitree-Go2-Play-v0",
    "depth_env_cfg:Go2RoughDepthPlayEnvCfg",
    "Go2 with a depth camera, few robots and tiles, no noise, no curriculum.",
    libraries=["rsl_rl"],
    agents="{}_rough_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_rough_depth_distillation_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Parkour-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourEnvCfg",
    "Go2 goes over gaps, hurdles and steps, with a scan of the ground.",
    libraries=["rsl_rl"],
    agents="{}_parkour_ppo_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Parkour-Blind-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourBlindEnvCfg",
    "Go2 goes over gaps, hurdles and steps that it does not see; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_blind_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_blind_distillation_cfg",
)
register(
    __name__,
    "Envlab-Velocity-Parkour-Depth-Unitree-Go2-v0",
    "parkour_env_cfg:Go2ParkourDepthEnvCfg",
    "Go2 goes over gaps, hurdles and steps by a depth camera; for students.",
    libraries=["rsl_rl"],
    agents="{}_parkour_depth_ppo_cfg",
    rsl_rl_distillation="rsl_rl_parkour_depth_distillation_cfg",
)
