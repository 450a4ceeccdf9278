"""A humanoid that moves in the style of a clip, by adversarial motion priors: Isaac Lab's tasks."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Humanoid-AMP-Walk-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpWalkEnvCfg",
    "A humanoid walks in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_walk_amp_cfg",
)
register(
    __name__,
    "Isaac-Humanoid-AMP-Run-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpRunEnvCfg",
    "A humanoid runs in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_run_amp_cfg",
)
register(
    __name__,
    "Isaac-Humanoid-AMP-Dance-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpDanceEnvCfg",
    "A humanoid dances in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_dance_amp_cfg",
)
