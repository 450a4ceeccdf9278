"""Isaac-Velocity-Flat-Unitree-Go2-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL, NO_PUSHES, Go2EnvCfg
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import SmallFlatRewardsCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    NO_NOISE,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
)


@dataclass(kw_only=True)
class Go2FlatEnvCfg(Go2EnvCfg):
    """Go2 on a plane."""

    rewards: RewardsCfg = field(default_factory=SmallFlatRewardsCfg)


@dataclass(kw_only=True)
class Go2FlatPlayEnvCfg(Go2FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
