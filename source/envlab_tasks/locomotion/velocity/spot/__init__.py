"""A quadruped that trots by velocity commands: Boston Dynamics Spot."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-Spot-v0",
    "flat_env_cfg:SpotFlatEnvCfg",
    "A quadruped, Spot, follows fast velocity commands at a trot on cobblestones.",
    libraries=["rsl_rl", "skrl"],
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-Spot-Play-v0",
    "flat_env_cfg:SpotFlatPlayEnvCfg",
    "Spot on few tiles, with few robots, for playing.",
    libraries=["rsl_rl", "skrl"],
    agents="{}_flat_ppo_cfg",
)
