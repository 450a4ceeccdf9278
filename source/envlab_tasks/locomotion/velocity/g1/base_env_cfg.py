"""Changes of G1 to :class:`BipedEnvCfg`, on any ground. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.biped_env_cfg import (
    BipedEnvCfg,
    BipedEventsCfg,
    BipedRewardsCfg,
    deviation,
    feet_air_time,
    feet_slide,
    joints,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    EventsCfg,
    RewardsCfg,
    reset_joints,
    tracking,
)

MODEL = "envlab_assets:robots/g1.xml"
FEET = ".*_ankle_roll_link"
FINGERS = ".*_(zero|one|two|three|four|five|six)_joint"


def joint_acc(weight: float) -> RewardTermCfg:
    """Return the penalty on accelerations of hips and knees."""
    return reward(mdp.joint_acc_l2, weight, asset_cfg=joints(".*_hip_.*", ".*_knee_joint"))


def torques(weight: float, *names: str) -> RewardTermCfg:
    """Return the penalty on torques."""
    return reward(mdp.joint_torques_l2, weight, asset_cfg=joints(*names))


@dataclass(kw_only=True)
class G1RewardsCfg(BipedRewardsCfg):
    """Follow the command on one foot at a time, do not fall, and keep the upper body still."""

    track_ang_vel_z_exp: RewardTermCfg | None = default(
        tracking(mdp.track_ang_vel_z_world_exp, 2.0)
    )
    lin_vel_z_l2: RewardTermCfg | None = default(reward(mdp.lin_vel_z_l2, 0.0))
    dof_torques_l2: RewardTermCfg | None = default(
        torques(-1.5e-7, ".*_hip_.*", ".*_knee_joint", ".*_ankle_.*")
    )
    dof_acc_l2: RewardTermCfg | None = default(joint_acc(-1.25e-7))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.25, FEET, threshold=0.4))
    feet_slide: RewardTermCfg | None = default(feet_slide(-0.1, FEET))
    dof_pos_limits: RewardTermCfg | None = default(
        reward(
            mdp.joint_pos_limits,
            -1.0,
            asset_cfg=joints(".*_ankle_pitch_joint", ".*_ankle_roll_joint"),
        )
    )
    joint_deviation_hip: RewardTermCfg | None = default(
        deviation(-0.1, ".*_hip_yaw_joint", ".*_hip_roll_joint")
    )
    joint_deviation_arms: RewardTermCfg | None = default(
        deviation(-0.1, ".*_shoulder_.*", ".*_elbow_.*")
    )
    joint_deviation_fingers: RewardTermCfg | None = default(deviation(-0.05, FINGERS))
    joint_deviation_torso: RewardTermCfg | None = default(deviation(-0.1, "torso_joint"))


@dataclass(kw_only=True)
class G1EventsCfg(BipedEventsCfg):
    """Joints start within 0.9 of their ranges, at whose ends the fingers' defaults are.

    In Isaac Lab this is the robot's ``soft_joint_pos_limit_factor``.
    """

    reset_robot_joints: EventTermCfg | None = default(reset_joints(1.0, 1.0, soft_limit_factor=0.9))


NO_PUSHES = G1EventsCfg(base_external_force_torque=None)


@dataclass(kw_only=True)
class G1EnvCfg(BipedEnvCfg):
    """G1 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    rewards: RewardsCfg = field(default_factory=G1RewardsCfg)
    events: EventsCfg = field(default_factory=G1EventsCfg)
