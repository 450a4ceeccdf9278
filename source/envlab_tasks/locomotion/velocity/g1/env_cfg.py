"""G1's velocity tasks. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.bipeds import (
    TORSO,
    calm_events,
    deviation,
    feet_air_time,
    feet_slide,
    humanoid,
    humanoid_on_rough_ground,
    joints,
    straight_on,
    upright_rewards,
    velocity_commands,
)
from envlab_tasks.locomotion.velocity.variants import to_play
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg, tracking

FEET = ".*_ankle_roll_link"
FINGERS = ".*_(zero|one|two|three|four|five|six)_joint"


def joint_acc(weight: float) -> RewardTermCfg:
    """Return the penalty on accelerations of hips and knees."""
    return reward(mdp.joint_acc_l2, weight, asset_cfg=joints(".*_hip_.*", ".*_knee_joint"))


def torques(weight: float, *names: str) -> RewardTermCfg:
    """Return the penalty on torques."""
    return reward(mdp.joint_torques_l2, weight, asset_cfg=joints(*names))


def g1() -> VelocityEnvCfg:
    """Return G1's task on any ground.

    Joints start within 0.9 of their ranges, at whose ends the fingers' defaults are; in Isaac Lab
    this is the robot's ``soft_joint_pos_limit_factor``.
    """
    ankles = joints(".*_ankle_pitch_joint", ".*_ankle_roll_joint")
    rewards = upright_rewards(
        track_ang_vel_z_exp=tracking(mdp.track_ang_vel_z_world_exp, 2.0),
        lin_vel_z_l2=reward(mdp.lin_vel_z_l2, 0.0),
        dof_torques_l2=torques(-1.5e-7, ".*_hip_.*", ".*_knee_joint", ".*_ankle_.*"),
        dof_acc_l2=joint_acc(-1.25e-7),
        feet_air_time=feet_air_time(0.25, FEET, threshold=0.4),
        feet_slide=feet_slide(-0.1, FEET),
        dof_pos_limits=reward(mdp.joint_pos_limits, -1.0, asset_cfg=ankles),
        joint_deviation_hip=deviation(-0.1, ".*_hip_yaw_joint", ".*_hip_roll_joint"),
        joint_deviation_arms=deviation(-0.1, ".*_shoulder_.*", ".*_elbow_.*"),
        joint_deviation_fingers=deviation(-0.05, FINGERS),
        joint_deviation_torso=deviation(-0.1, "torso_joint"),
    )
    cfg = humanoid("envlab_assets:robots/g1.xml", rewards)
    cfg.events = calm_events(TORSO, soft_limit_factor=0.9)
    return cfg


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-G1-v0: steps are to be long, and torques count more."""
    cfg = g1()
    cfg.commands = velocity_commands(lin_vel_x=(0.0, 1.0), lin_vel_y=(-0.5, 0.5))
    cfg.rewards.track_ang_vel_z_exp = tracking(mdp.track_ang_vel_z_world_exp, 1.0)
    cfg.rewards.lin_vel_z_l2 = reward(mdp.lin_vel_z_l2, -0.2)
    cfg.rewards.dof_torques_l2 = torques(-2.0e-6, ".*_hip_.*", ".*_knee_joint")
    cfg.rewards.dof_acc_l2 = joint_acc(-1.0e-7)
    cfg.rewards.feet_air_time = feet_air_time(0.75, FEET, threshold=0.4)
    return cfg


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-G1-Play-v0."""
    return to_play(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-G1-v0."""
    return humanoid_on_rough_ground(g1())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-G1-Play-v0."""
    return straight_on(rough())
