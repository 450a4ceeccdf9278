"""Robots that follow recorded motions; the table of their tasks."""

from envlab_tasks.registration import register

G1 = f"{__name__}.g1"
register(
    G1,
    "Mjlab-Tracking-Flat-Unitree-G1",
    "env_cfg:G1TrackingEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows a motion clip.",
    libraries=["rsl_rl", "fast_sac"],
    action_scale=4.0,  # as FastSAC's action_limit
    fast_sac="fast_sac_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
    rsl_rl_distillation="rsl_rl_distillation_cfg",
)
register(
    G1,
    "Mjlab-Tracking-Flat-Unitree-G1-Play",
    "env_cfg:G1TrackingPlayEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows a motion clip, from its start, unpushed.",
    libraries=["rsl_rl", "fast_sac"],
    action_scale=4.0,  # as FastSAC's action_limit
    fast_sac="fast_sac_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1,
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation",
    "env_cfg:G1TrackingNoStateEstimationEnvCfg",
    "G1 with 29 joints follows a clip without knowing where it is and how fast.",
    libraries=["rsl_rl", "fast_sac"],
    action_scale=4.0,  # as FastSAC's action_limit
    fast_sac="fast_sac_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)
register(
    G1,
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation-Play",
    "env_cfg:G1TrackingNoStateEstimationPlayEnvCfg",
    "G1 with 29 joints follows a clip without knowing where it is, from its start, unpushed.",
    libraries=["rsl_rl", "fast_sac"],
    action_scale=4.0,  # as FastSAC's action_limit
    fast_sac="fast_sac_cfg",
    fast_sac_holosoma="fast_sac_holosoma_cfg",
)

HUMANOID_AMP = f"{__name__}.humanoid_amp"
register(
    HUMANOID_AMP,
    "Isaac-Humanoid-AMP-Walk-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpWalkEnvCfg",
    "A humanoid walks in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_walk_amp_cfg",
)
register(
    HUMANOID_AMP,
    "Isaac-Humanoid-AMP-Run-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpRunEnvCfg",
    "A humanoid runs in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_run_amp_cfg",
)
register(
    HUMANOID_AMP,
    "Isaac-Humanoid-AMP-Dance-Direct-v0",
    "humanoid_amp_env_cfg:HumanoidAmpDanceEnvCfg",
    "A humanoid dances in the style of a motion clip (AMP, direct).",
    env=".humanoid_amp_env:HumanoidAmpEnv",
    libraries=[],
    skrl_amp="skrl_dance_amp_cfg",
)
