"""Isaac-Velocity-Flat-G1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, default, mdp
from envlab.envs.managers import RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.biped_env_cfg import (
    feet_air_time,
    velocity_commands,
)
from envlab_tasks.locomotion.velocity.g1.base_env_cfg import (
    FEET,
    MODEL,
    NO_PUSHES,
    G1EnvCfg,
    G1RewardsCfg,
    joint_acc,
    torques,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    NO_NOISE,
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
    RewardsCfg,
    tracking,
)


@dataclass(kw_only=True)
class FlatRewardsCfg(G1RewardsCfg):
    """On flat ground steps are to be long, and torques count more."""

    track_ang_vel_z_exp: RewardTermCfg | None = default(
        tracking(mdp.track_ang_vel_z_world_exp, 1.0)
    )
    lin_vel_z_l2: RewardTermCfg | None = default(reward(mdp.lin_vel_z_l2, -0.2))
    dof_torques_l2: RewardTermCfg | None = default(torques(-2.0e-6, ".*_hip_.*", ".*_knee_joint"))
    dof_acc_l2: RewardTermCfg | None = default(joint_acc(-1.0e-7))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.75, FEET, threshold=0.4))


@dataclass(kw_only=True)
class G1FlatEnvCfg(G1EnvCfg):
    """G1 on a plane."""

    commands: CommandsCfg = default(velocity_commands(lin_vel_x=(0.0, 1.0), lin_vel_y=(-0.5, 0.5)))
    rewards: RewardsCfg = field(default_factory=FlatRewardsCfg)


@dataclass(kw_only=True)
class G1FlatPlayEnvCfg(G1FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(NO_NOISE)
    events: EventsCfg = default(NO_PUSHES)
