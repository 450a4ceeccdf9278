"""A humanoid that follows velocity commands: Unitree H1."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-H1-v0",
    "flat_env_cfg:H1FlatEnvCfg",
    "A humanoid, Unitree H1, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-H1-Play-v0",
    "flat_env_cfg:H1FlatPlayEnvCfg",
    "H1 on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-H1-v0",
    "rough_env_cfg:H1RoughEnvCfg",
    "A humanoid, Unitree H1, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-H1-Play-v0",
    "rough_env_cfg:H1RoughPlayEnvCfg",
    "H1 walks straight on over rough ground: few robots and tiles, no noise.",
    agents="{}_rough_ppo_cfg",
)
