"""A quadruped that follows velocity commands: Unitree Go1, Isaac Lab's tasks and mjlab 1.6.0's."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-Unitree-Go1-v0",
    "flat_env_cfg:Go1FlatEnvCfg",
    "A quadruped, Unitree Go1, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Flat-Unitree-Go1",
    "mjlab_flat_env_cfg:Go1FlatEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on flat ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-Unitree-Go1-Play-v0",
    "flat_env_cfg:Go1FlatPlayEnvCfg",
    "Go1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Flat-Unitree-Go1-Play",
    "mjlab_flat_env_cfg:Go1FlatPlayEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on flat ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Unitree-Go1-v0",
    "rough_env_cfg:Go1RoughEnvCfg",
    "A quadruped, Unitree Go1, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Rough-Unitree-Go1",
    "mjlab_rough_env_cfg:Go1RoughEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on rough ground.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Unitree-Go1-Play-v0",
    "rough_env_cfg:Go1RoughPlayEnvCfg",
    "Go1 on rough ground with few robots, no noise and no pushes, for playing.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Rough-Unitree-Go1-Play",
    "mjlab_rough_env_cfg:Go1RoughPlayEnvCfg",
    "Unitree Go1 walks by mjlab's rewards on rough ground: few robots, no noise.",
    libraries=["rsl_rl"],
    agents="mjlab_{}_rough_ppo_cfg",
)
