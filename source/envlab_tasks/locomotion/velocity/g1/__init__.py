"""A humanoid that follows velocity commands: Unitree G1."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-G1-v0",
    "flat_env_cfg:G1FlatEnvCfg",
    "A humanoid, Unitree G1 with hands, follows commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-G1-Play-v0",
    "flat_env_cfg:G1FlatPlayEnvCfg",
    "G1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-G1-v0",
    "rough_env_cfg:G1RoughEnvCfg",
    "A humanoid, Unitree G1 with hands, follows commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-G1-Play-v0",
    "rough_env_cfg:G1RoughPlayEnvCfg",
    "G1 walks straight on over rough ground: few robots and tiles, no noise.",
    agents="{}_rough_ppo_cfg",
)
