"""Cassie's velocity tasks. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Cassie's loops are open: the model has no rods and springs, and 12 joints are driven, as in its
  source, legged_gym's file. Toes have an armature of 0.01 kg m^2 from that file; that of the other
  joints is our choice.
"""

from __future__ import annotations

from envlab.envs import mdp
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.bipeds import (
    BipedRewardsCfg,
    biped,
    deviation,
    feet_air_time,
    joints,
    velocity_commands,
)
from envlab_tasks.locomotion.velocity.variants import few_robots, full_terrains, on_rough_ground
from envlab_tasks.locomotion.velocity.velocity_env_cfg import VelocityEnvCfg, tracking

TOES = "toe_joint_.*"


def cassie_rewards() -> BipedRewardsCfg:
    """Return what Cassie is rewarded for on any ground."""
    return BipedRewardsCfg(
        track_lin_vel_xy_exp=tracking(mdp.track_lin_vel_xy_exp, 2.0),
        track_ang_vel_z_exp=tracking(mdp.track_ang_vel_z_exp, 1.0),
        dof_torques_l2=reward(mdp.joint_torques_l2, -5.0e-6),
        dof_acc_l2=reward(mdp.joint_acc_l2, -3.75e-7),
        action_rate_l2=reward(mdp.action_rate_l2, -0.015),
        feet_air_time=feet_air_time(2.5, ".*toe", threshold=0.3),
        joint_deviation_hip=deviation(-0.2, "hip_abduction_.*", "hip_rotation_.*"),
        joint_deviation_toes=deviation(-0.2, TOES),
        dof_pos_limits=reward(mdp.joint_pos_limits, -1.0, asset_cfg=joints(TOES)),
    )


def cassie(rewards: BipedRewardsCfg) -> VelocityEnvCfg:
    """Return Cassie's task on any ground."""
    return biped("envlab_assets:robots/cassie.xml", rewards, base="pelvis")


def flat() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Cassie-v0."""
    rewards = cassie_rewards()
    rewards.flat_orientation_l2 = reward(mdp.flat_orientation_l2, -2.5)
    rewards.feet_air_time = feet_air_time(5.0, ".*toe", threshold=0.3)
    rewards.joint_deviation_hip = deviation(-0.2, "hip_rotation_.*")
    return cassie(rewards)


def flat_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Flat-Cassie-Play-v0."""
    return few_robots(flat())


def rough() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Cassie-v0."""
    return on_rough_ground(cassie(cassie_rewards()), full_terrains())


def rough_play() -> VelocityEnvCfg:
    """Return Isaac-Velocity-Rough-Cassie-Play-v0, with commands to walk straight on."""
    cfg = rough()
    cfg.commands = velocity_commands(lin_vel_x=(0.7, 1.0), lin_vel_y=(0.0, 0.0), heading=(0.0, 0.0))
    return few_robots(cfg)
