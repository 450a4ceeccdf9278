"""A humanoid that follows a motion: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""

from envlab_tasks.registration import register

register(
    __name__,
    "Mjlab-Tracking-Flat-Unitree-G1",
    "env_cfg:G1TrackingEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows a motion clip.",
    libraries=["rsl_rl", "fast_sac"],
    fast_sac="fast_sac_cfg",
)
register(
    __name__,
    "Mjlab-Tracking-Flat-Unitree-G1-Play",
    "env_cfg:G1TrackingPlayEnvCfg",
    "A humanoid, Unitree G1 with 29 joints, follows a motion clip, from its start, unpushed.",
    libraries=["rsl_rl", "fast_sac"],
    fast_sac="fast_sac_cfg",
)
register(
    __name__,
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation",
    "env_cfg:G1TrackingNoStateEstimationEnvCfg",
    "G1 with 29 joints follows a clip without knowing where it is and how fast.",
    libraries=["rsl_rl", "fast_sac"],
    fast_sac="fast_sac_cfg",
)
register(
    __name__,
    "Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation-Play",
    "env_cfg:G1TrackingNoStateEstimationPlayEnvCfg",
    "G1 with 29 joints follows a clip without knowing where it is, from its start, unpushed.",
    libraries=["rsl_rl", "fast_sac"],
    fast_sac="fast_sac_cfg",
)
