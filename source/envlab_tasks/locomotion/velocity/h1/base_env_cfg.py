"""Changes of H1 to :class:`BipedEnvCfg`, on any ground. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Joints have an armature of 0.02 kg m^2, which is our choice; Isaac Lab's configuration sets none.
- Masses are those of the MuJoCo Menagerie's H1, 51.4 kg in all. Unitree's current file has 59.3 kg.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.biped_env_cfg import (
    BipedEnvCfg,
    BipedRewardsCfg,
    deviation,
    feet_air_time,
    feet_slide,
    joints,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import RewardsCfg

MODEL = "envlab_assets:robots/h1.xml"
FEET = ".*_ankle_link"


@dataclass(kw_only=True)
class H1RewardsCfg(BipedRewardsCfg):
    """Follow the command on one foot at a time, do not fall, and keep arms and torso still."""

    lin_vel_z_l2: RewardTermCfg | None = None
    dof_torques_l2: RewardTermCfg | None = default(reward(mdp.joint_torques_l2, 0.0))
    dof_acc_l2: RewardTermCfg | None = default(reward(mdp.joint_acc_l2, -1.25e-7))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.25, FEET, threshold=0.4))
    feet_slide: RewardTermCfg | None = default(feet_slide(-0.25, FEET))
    dof_pos_limits: RewardTermCfg | None = default(
        reward(mdp.joint_pos_limits, -1.0, asset_cfg=joints(".*_ankle"))
    )
    joint_deviation_hip: RewardTermCfg | None = default(
        deviation(-0.2, ".*_hip_yaw", ".*_hip_roll")
    )
    joint_deviation_arms: RewardTermCfg | None = default(
        deviation(-0.2, ".*_shoulder_.*", ".*_elbow")
    )
    joint_deviation_torso: RewardTermCfg | None = default(deviation(-0.1, "torso"))


@dataclass(kw_only=True)
class H1EnvCfg(BipedEnvCfg):
    """H1 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    rewards: RewardsCfg = field(default_factory=H1RewardsCfg)
