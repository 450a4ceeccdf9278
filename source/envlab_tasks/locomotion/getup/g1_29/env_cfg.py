"""Envlab-Getup-Flat-Unitree-G1-v0: G1's changes to Playground's task, which has no humanoid."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SimulationCfg, default
from envlab.envs.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg, SuccessTermCfg
from envlab.envs.terms import observation, reward
from envlab_assets.robots.g1_29 import MODEL
from envlab_tasks.locomotion.getup import terms
from envlab_tasks.locomotion.getup.getup_env_cfg import (
    CriticCfg,
    EventsCfg,
    GetupEnvCfg,
    ObservationsCfg,
    RewardsCfg,
    fall,
    site,
)

HEIGHT = {"target_height": 0.65, "asset_cfg": site("imu_in_pelvis")}
"""The IMU in the pelvis, which is at 0.68 m in the default pose."""


@dataclass(kw_only=True)
class G1CriticCfg(CriticCfg):
    """G1's model has no accelerometer."""

    imu_lin_acc: ObservationTermCfg | None = None  # type: ignore[assignment]
    torso_height: ObservationTermCfg = default(
        observation(terms.site_height, asset_cfg=site("imu_in_pelvis"))
    )


@dataclass(kw_only=True)
class G1ObservationsCfg(ObservationsCfg):
    """Observations of G1's policy and critic."""

    critic: CriticCfg = field(default_factory=G1CriticCfg)


@dataclass(kw_only=True)
class G1EventsCfg(EventsCfg):
    """Falls from higher up, as G1 is larger."""

    reset_base: EventTermCfg | None = default(fall(0.9))


@dataclass(kw_only=True)
class G1RewardsCfg(RewardsCfg):
    """Rewards with G1's target height."""

    torso_height: RewardTermCfg | None = default(reward(terms.torso_height, 1.0, **HEIGHT))
    stand_still: RewardTermCfg | None = default(reward(terms.stand_still, 1.0, **HEIGHT))


@dataclass(kw_only=True)
class G1GetupEnvCfg(GetupEnvCfg):
    """G1 gets up."""

    decimation: int = 4
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "site_xpos", "actuator_force"),
            substep_fields=("qvel",),
            num_contacts_max=100,
            num_constraints_max=400,
        )
    )
    observations: ObservationsCfg = field(default_factory=G1ObservationsCfg)
    events: EventsCfg = field(default_factory=G1EventsCfg)
    rewards: RewardsCfg = field(default_factory=G1RewardsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(func=terms.is_standing, params=dict(HEIGHT))
    )
