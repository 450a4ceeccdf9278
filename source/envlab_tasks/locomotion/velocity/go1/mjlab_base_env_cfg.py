"""Changes of Go1 to :class:`MjlabVelocityEnvCfg`, on any ground, with mjlab 1.6.0's numbers.

Differs from mjlab 1.6.0:

- Go1's thighs and calves have a capsule each; mjlab's have three and two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import at_startup
from envlab_assets.robots.go1 import FEET, MJLAB_ACTION_SCALE, MJLAB_MODEL
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    EventsCfg,
    MjlabVelocityEnvCfg,
    RewardsCfg,
    SensorsCfg,
    balance,
    posture,
    upright,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import ActionsCfg, scaled_actions

FOOT_SENSOR = mdp.FootSensorCfg(site_names=FEET, ring_radius_m=0.04, num_ring_samples=4)
STANDING = {".*_(hip|thigh)_joint": 0.05, ".*_calf_joint": 0.1}
MOVING = {".*_(hip|thigh)_joint": 0.3, ".*_calf_joint": 0.6}


def foot_friction(
    axis: int, low: float, high: float, distribution: str = "log_uniform"
) -> EventTermCfg:
    """Return a draw of the feet's friction when they slide (0), spin (1) or roll (2)."""
    return at_startup(
        mdp.randomize_geom_friction,
        asset_cfg=SceneEntityCfg("robot", geom_names=".*_foot_collision"),
        friction_range=(low, high),
        axis=axis,
        distribution=distribution,
    )


@dataclass(kw_only=True)
class Go1EventsCfg(EventsCfg):
    """Feet slip more or less, and the trunk is heavier on one side."""

    base_com: EventTermCfg | None = default(balance("trunk"))
    foot_friction_slide: EventTermCfg | None = default(foot_friction(0, 0.3, 1.5, "uniform"))
    foot_friction_spin: EventTermCfg | None = default(foot_friction(1, 1e-4, 2e-2))
    foot_friction_roll: EventTermCfg | None = default(foot_friction(2, 1e-5, 5e-3))


NO_PUSHES = Go1EventsCfg(push_robot=None)


@dataclass(kw_only=True)
class Go1RewardsCfg(RewardsCfg):
    """The trunk stays upright."""

    upright: RewardTermCfg | None = default(upright("trunk"))
    pose: RewardTermCfg | None = default(posture(STANDING, MOVING, MOVING))


@dataclass(kw_only=True)
class Go1EnvCfg(MjlabVelocityEnvCfg):
    """Go1 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MJLAB_MODEL))
    actions: ActionsCfg = default(scaled_actions(MJLAB_ACTION_SCALE))
    events: EventsCfg = field(default_factory=Go1EventsCfg)
    rewards: RewardsCfg = field(default_factory=Go1RewardsCfg)
    sensors: SensorsCfg = default(SensorsCfg(feet=FOOT_SENSOR))
