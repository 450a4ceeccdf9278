"""Isaac-Velocity-Flat-Unitree-Go1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab_assets.robots.go1 import MODEL
from envlab_tasks.locomotion.velocity.go1.base_env_cfg import NO_PUSHES, Go1EnvCfg
from envlab_tasks.locomotion.velocity.small_quadruped_env_cfg import SmallFlatRewardsCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    NO_NOISE,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
)


@dataclass(kw_only=True)
class Go1FlatEnvCfg(Go1EnvCfg):
    """Go1 on a plane."""

    rewards: RewardsCfg = field(default_factory=SmallFlatRewardsCfg)


@dataclass(kw_only=True)
class Go1FlatPlayEnvCfg(Go1FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
