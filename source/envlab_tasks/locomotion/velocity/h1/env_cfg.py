"""H1's velocity tasks. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Joints have an armature of 0.02 kg m^2, which is our choice; Isaac Lab's configuration sets none.
- Masses are those of the MuJoCo Menagerie's H1, 51.4 kg in all. Unitree's current file has 59.3 kg.
"""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.bipeds import (
    deviation,
    feet_air_time,
    feet_slide,
    humanoid,
    humanoid_on_rough_ground,
    joints,
    straight_on,
    upright_rewards,
)
from envlab_tasks.locomotion.velocity.variants import to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg

FEET = ".*_ankle_link"


def h1() -> VelocityEnvCfg:
    """Return H1's task on any ground."""
    rewards = upright_rewards(
        lin_vel_z_l2=None,
        dof_torques_l2=reward(mdp.joint_torques_l2, 0.0),
        dof_acc_l2=reward(mdp.joint_acc_l2, -1.25e-7),
        feet_air_time=feet_air_time(0.25, FEET, threshold=0.4),
        feet_slide=feet_slide(-0.25, FEET),
        dof_pos_limits=reward(mdp.joint_pos_limits, -1.0, asset_cfg=joints(".*_ankle")),
        joint_deviation_hip=deviation(-0.2, ".*_hip_yaw", ".*_hip_roll"),
        joint_deviation_arms=deviation(-0.2, ".*_shoulder_.*", ".*_elbow"),
        joint_deviation_torso=deviation(-0.1, "torso"),
    )
    return humanoid("envlab_assets:robots/h1.xml", rewards)


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-H1-v0."""
    cfg = h1()
    cfg.rewards.feet_air_time = feet_air_time(1.0, FEET, threshold=0.6)
    return cfg


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-H1-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-H1-v0."""
    return humanoid_on_rough_ground(h1())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-H1-Play-v0."""
    return straight_on(rough())
