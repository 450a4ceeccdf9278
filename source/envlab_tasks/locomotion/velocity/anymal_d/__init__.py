"""A quadruped that follows velocity commands: ANYbotics ANYmal D."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Velocity-Flat-Anymal-D-v0",
    "flat_env_cfg:AnymalDFlatEnvCfg",
    "A quadruped, ANYmal D, follows velocity commands on flat ground.",
    agents="{}_flat_ppo_cfg",
    rsl_rl_distillation="rsl_rl_flat_distillation_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Flat-Anymal-D-Play-v0",
    "flat_env_cfg:AnymalDFlatPlayEnvCfg",
    "ANYmal D on flat ground with few robots, no noise and no pushes, for playing.",
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Anymal-D-v0",
    "rough_env_cfg:AnymalDRoughEnvCfg",
    "A quadruped, ANYmal D, follows velocity commands on rough ground.",
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Isaac-Velocity-Rough-Anymal-D-Play-v0",
    "rough_env_cfg:AnymalDRoughPlayEnvCfg",
    "ANYmal D on rough ground with few robots and tiles, no noise, no curriculum.",
    agents="{}_rough_ppo_cfg",
)
