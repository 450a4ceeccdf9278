"""What Go2 changes in :class:`VelocityEnvCfg`, on any ground. The numbers are Isaac Lab 2.3's.

Differs from Isaac Lab 2.3.2:

- Joints have an armature of 0.01 kg m^2, as in the MuJoCo Menagerie; there the configuration sets
  none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ActionsCfg,
    EventsCfg,
    RewardsCfg,
    VelocityEnvCfg,
    in_contact,
    reset_base,
    reset_joints,
    tracking,
)

MODEL = "envlab_assets:robots/go2.xml"


def feet_air_time(weight: float) -> RewardTermCfg:
    """Return the reward for steps of more than 0.5 s."""
    return RewardTermCfg(
        func=mdp.feet_air_time,
        weight=weight,
        params={
            "sensor_cfg": in_contact(".*_foot"),
            "command_name": "base_velocity",
            "threshold": 0.5,
        },
    )


@dataclass(kw_only=True)
class Go2ActionsCfg(ActionsCfg):
    """The robot is small: 0.25 rad per unit of action."""

    joint_pos: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(joint_names=[".*"], scale=0.25)
    )


@dataclass(kw_only=True)
class Go2EventsCfg(EventsCfg):
    """The base weighs 1 kg less to 3 kg more; episodes start at rest in the default pose."""

    add_base_mass: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_mass,
            mode="startup",
            params={
                "asset_cfg": SceneEntityCfg("robot", body_names="base"),
                "mass_distribution_params": (-1.0, 3.0),
                "operation": "add",
            },
        )
    )
    base_com: EventTermCfg | None = None
    reset_base: EventTermCfg | None = default(reset_base(0.0))
    reset_robot_joints: EventTermCfg | None = default(reset_joints(1.0, 1.0))
    push_robot: EventTermCfg | None = None


@dataclass(kw_only=True)
class Go2RewardsCfg(RewardsCfg):
    """Following the command counts more, and torques do."""

    track_lin_vel_xy_exp: RewardTermCfg | None = default(tracking(mdp.track_lin_vel_xy_exp, 1.5))
    track_ang_vel_z_exp: RewardTermCfg | None = default(tracking(mdp.track_ang_vel_z_exp, 0.75))
    dof_torques_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.joint_torques_l2, weight=-2.0e-4)
    )
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.01))
    undesired_contacts: RewardTermCfg | None = None


@dataclass(kw_only=True)
class Go2EnvCfg(VelocityEnvCfg):
    """Go2 on any ground."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    actions: ActionsCfg = field(default_factory=Go2ActionsCfg)
    events: EventsCfg = field(default_factory=Go2EventsCfg)
    rewards: RewardsCfg = field(default_factory=Go2RewardsCfg)
