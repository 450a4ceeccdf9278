"""Playground-Go1Getup-v0. The numbers are MuJoCo Playground's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default
from envlab.envs.managers import RewardTermCfg, SuccessTermCfg
from envlab.envs.terms import reward
from envlab_assets.robots.go1 import PLAYGROUND_MODEL
from envlab_tasks.locomotion.getup import terms
from envlab_tasks.locomotion.getup.getup_env_cfg import GetupEnvCfg, RewardsCfg, site

HEIGHT = {"target_height": 0.275, "asset_cfg": site("imu")}
"""The IMU of a Go1 that stands, in m."""


@dataclass(kw_only=True)
class Go1RewardsCfg(RewardsCfg):
    """Rewards with Go1's target height."""

    torso_height: RewardTermCfg | None = default(reward(terms.torso_height, 1.0, **HEIGHT))
    stand_still: RewardTermCfg | None = default(reward(terms.stand_still, 1.0, **HEIGHT))


@dataclass(kw_only=True)
class Go1GetupEnvCfg(GetupEnvCfg):
    """Go1 gets up."""

    scene: SceneCfg = default(SceneCfg(num_envs=8192, model=PLAYGROUND_MODEL))
    rewards: RewardsCfg = field(default_factory=Go1RewardsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(func=terms.is_standing, params=dict(HEIGHT))
    )
