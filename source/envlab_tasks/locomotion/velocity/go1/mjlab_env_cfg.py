"""Go1's velocity tasks by mjlab 1.6.0, with its numbers.

Differs from mjlab 1.6.0:

- Go1's thighs and calves have a capsule each; mjlab's have three and two.
- On rough ground Go1's trunk is to be upright to a least-squares plane through 54 heights; mjlab's
  plane minimises the distances to 32 points.
- Of a body's contacts with the ground, the strongest counts on rough ground; in mjlab, the first of
  each geom.
"""

from __future__ import annotations

from envlab.envs import SceneCfg, SceneEntityCfg, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import at_startup, reward, termination
from envlab_assets.robots.go1 import FEET, MJLAB_ACTION_SCALE, MJLAB_MODEL
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import (
    EventsCfg,
    MjlabVelocityEnvCfg,
    RewardsCfg,
    SensorsCfg,
    balance,
    posture,
    sensors,
    upright,
)
from envlab_tasks.locomotion.velocity.mjlab_variants import on_rough_ground, to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import scaled_actions

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


def hitting(*names: str) -> RewardTermCfg:
    """Return the penalty on collisions of more than 10 N that sensors of the model measure."""
    return reward(mdp.self_collision_cost, -0.1, force_threshold=10.0, asset_cfg=sensors(*names))


def flat() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Flat-Unitree-Go1."""
    feet = mdp.FootSensorCfg(site_names=FEET, ring_radius_m=0.04, num_ring_samples=4)
    return MjlabVelocityEnvCfg(
        scene=SceneCfg(num_envs=4096, model=MJLAB_MODEL),
        actions=scaled_actions(MJLAB_ACTION_SCALE),
        events=EventsCfg(
            base_com=balance("trunk"),
            foot_friction_slide=foot_friction(0, 0.3, 1.5, "uniform"),
            foot_friction_spin=foot_friction(1, 1e-4, 2e-2),
            foot_friction_roll=foot_friction(2, 1e-5, 5e-3),
        ),
        rewards=RewardsCfg(upright=upright("trunk"), pose=posture(STANDING, MOVING, MOVING)),
        sensors=SensorsCfg(feet=feet),
    )


def flat_play() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Flat-Unitree-Go1-Play."""
    return to_play(flat())


def rough() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Rough-Unitree-Go1: upright against the slope, only feet touch."""
    cfg = on_rough_ground(flat())
    cfg.sensors.slope = mdp.RayCasterCfg(pattern_cfg=mdp.GridPatternCfg(resolution=0.2))
    cfg.rewards.upright = upright("trunk", sensor_cfg=SceneEntityCfg("slope"))
    cfg.rewards.self_collisions = hitting("self_collision")
    cfg.rewards.shank_collision = hitting(".*_calf_ground")
    cfg.rewards.trunk_head_collision = hitting("trunk_ground")
    cfg.terminations.fell_over = None  # slopes tilt the robot
    cfg.terminations.illegal_contact = termination(
        mdp.illegal_collision, force_threshold=10.0, asset_cfg=sensors(".*_thigh_ground")
    )
    return cfg


def rough_play() -> MjlabVelocityEnvCfg:
    """Return Mjlab-Velocity-Rough-Unitree-Go1-Play."""
    return to_play(rough())
