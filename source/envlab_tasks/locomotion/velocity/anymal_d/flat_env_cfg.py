"""Isaac-Velocity-Flat-Anymal-D-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.anymal_d.base_env_cfg import (
    FEET,
    MODEL,
    NO_PUSHES,
    AnymalDEnvCfg,
    AnymalDRewardsCfg,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    NO_NOISE,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
    feet_air_time,
)


@dataclass(kw_only=True)
class FlatRewardsCfg(AnymalDRewardsCfg):
    """On flat ground the base is to be level, and steps are to be long."""

    dof_torques_l2: RewardTermCfg | None = default(reward(mdp.joint_torques_l2, -2.5e-5))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.5, FEET))
    flat_orientation_l2: RewardTermCfg | None = default(reward(mdp.flat_orientation_l2, -5.0))


@dataclass(kw_only=True)
class AnymalDFlatEnvCfg(AnymalDEnvCfg):
    """ANYmal D on a plane."""

    rewards: RewardsCfg = field(default_factory=FlatRewardsCfg)


@dataclass(kw_only=True)
class AnymalDFlatPlayEnvCfg(AnymalDFlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
