"""A humanoid that follows velocity commands: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""

from envlab_tasks.registration import register

register(
    __name__,
    "Mjlab-Velocity-Flat-Unitree-G1",
    "flat_env_cfg:G1FlatEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows commands on flat ground.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Flat-Unitree-G1-Play",
    "flat_env_cfg:G1FlatPlayEnvCfg",
    "G1 with 29 joints on flat ground, faster, with no noise and no pushes.",
    libraries=["rsl_rl"],
    agents="{}_flat_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Rough-Unitree-G1",
    "rough_env_cfg:G1RoughEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows commands on rough ground.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
)
register(
    __name__,
    "Mjlab-Velocity-Rough-Unitree-G1-Play",
    "rough_env_cfg:G1RoughPlayEnvCfg",
    "G1 with 29 joints on few tiles of rough ground, no noise, no pushes.",
    libraries=["rsl_rl"],
    agents="{}_rough_ppo_cfg",
)
