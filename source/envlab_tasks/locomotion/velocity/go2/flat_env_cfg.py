"""Isaac-Velocity-Flat-Unitree-Go2-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import (
    MODEL,
    Go2EnvCfg,
    Go2EventsCfg,
    Go2RewardsCfg,
    feet_air_time,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    ObservationsCfg,
    PlayObservationsCfg,
    RewardsCfg,
)


@dataclass(kw_only=True)
class FlatRewardsCfg(Go2RewardsCfg):
    """On flat ground the base is to be level, and steps are to be long."""

    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.25))
    flat_orientation_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.flat_orientation_l2, weight=-2.5)
    )


@dataclass(kw_only=True)
class Go2FlatEnvCfg(Go2EnvCfg):
    """Go2 on a plane."""

    rewards: RewardsCfg = field(default_factory=FlatRewardsCfg)


@dataclass(kw_only=True)
class PlayEventsCfg(Go2EventsCfg):
    """Nothing pushes."""

    base_external_force_torque: EventTermCfg | None = None


@dataclass(kw_only=True)
class Go2FlatPlayEnvCfg(Go2FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = field(default_factory=PlayObservationsCfg)
    events: EventsCfg = field(default_factory=PlayEventsCfg)
