"""Isaac-Velocity-Flat-H1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab_tasks.locomotion.velocity.biped_env_cfg import NO_PUSHES, feet_air_time
from envlab_tasks.locomotion.velocity.h1.base_env_cfg import FEET, MODEL, H1EnvCfg, H1RewardsCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    NO_NOISE,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
)


@dataclass(kw_only=True)
class H1FlatEnvCfg(H1EnvCfg):
    """H1 on a plane."""

    rewards: RewardsCfg = default(
        H1RewardsCfg(feet_air_time=feet_air_time(1.0, FEET, threshold=0.6))
    )


@dataclass(kw_only=True)
class H1FlatPlayEnvCfg(H1FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
