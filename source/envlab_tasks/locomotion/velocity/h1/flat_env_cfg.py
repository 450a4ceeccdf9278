"""Isaac-Velocity-Flat-H1-v0. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg, TerminationTermCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
    PlayObservationsCfg,
    RewardsCfg,
    TerminationsCfg,
    VelocityEnvCfg,
    base_contact,
    external_wrench,
    in_contact,
    reset_base,
    reset_joints,
    tracking,
)

MODEL = "envlab_assets:robots/h1.xml"
FEET = ".*_ankle_link"


def joints(*names: str) -> SceneEntityCfg:
    """Select joints."""
    return SceneEntityCfg("robot", joint_names=list(names))


def deviation(weight: float, *names: str) -> RewardTermCfg:
    """Return the penalty on joints that walking does not need."""
    return RewardTermCfg(
        func=mdp.joint_deviation_l1, weight=weight, params={"asset_cfg": joints(*names)}
    )


@dataclass(kw_only=True)
class H1CommandsCfg(CommandsCfg):
    """Forward only."""

    base_velocity: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0),
            ranges=mdp.VelocityRangesCfg(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0)),
        )
    )


@dataclass(kw_only=True)
class H1EventsCfg(EventsCfg):
    """Only friction differs; episodes start at rest in the default pose."""

    add_base_mass: EventTermCfg | None = None
    base_com: EventTermCfg | None = None
    base_external_force_torque: EventTermCfg | None = default(external_wrench("torso_link"))
    reset_base: EventTermCfg | None = default(reset_base(0.0))
    reset_robot_joints: EventTermCfg | None = default(reset_joints(1.0, 1.0))
    push_robot: EventTermCfg | None = None


@dataclass(kw_only=True)
class H1RewardsCfg(RewardsCfg):
    """Follow the command on one foot at a time, do not fall, and keep arms and torso still."""

    termination_penalty: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.is_terminated, weight=-200.0)
    )
    track_lin_vel_xy_exp: RewardTermCfg | None = default(
        tracking(mdp.track_lin_vel_xy_yaw_frame_exp, 1.0)
    )
    track_ang_vel_z_exp: RewardTermCfg | None = default(
        tracking(mdp.track_ang_vel_z_world_exp, 1.0)
    )
    lin_vel_z_l2: RewardTermCfg | None = None
    dof_torques_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.joint_torques_l2, weight=0.0)
    )
    dof_acc_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.joint_acc_l2, weight=-1.25e-7)
    )
    action_rate_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.action_rate_l2, weight=-0.005)
    )
    feet_air_time: RewardTermCfg | None = default(
        RewardTermCfg(
            func=mdp.feet_air_time_positive_biped,
            weight=1.0,
            params={
                "command_name": "base_velocity",
                "sensor_cfg": in_contact(FEET),
                "threshold": 0.6,
            },
        )
    )
    undesired_contacts: RewardTermCfg | None = None
    flat_orientation_l2: RewardTermCfg | None = default(
        RewardTermCfg(func=mdp.flat_orientation_l2, weight=-1.0)
    )
    dof_pos_limits: RewardTermCfg | None = default(
        RewardTermCfg(
            func=mdp.joint_pos_limits, weight=-1.0, params={"asset_cfg": joints(".*_ankle")}
        )
    )
    feet_slide: RewardTermCfg | None = default(
        RewardTermCfg(
            func=mdp.feet_slide,
            weight=-0.25,
            params={
                "sensor_cfg": in_contact(FEET),
                "asset_cfg": SceneEntityCfg("robot", body_names=FEET),
            },
        )
    )
    joint_deviation_hip: RewardTermCfg | None = default(
        deviation(-0.2, ".*_hip_yaw", ".*_hip_roll")
    )
    joint_deviation_arms: RewardTermCfg | None = default(
        deviation(-0.2, ".*_shoulder_.*", ".*_elbow")
    )
    joint_deviation_torso: RewardTermCfg | None = default(deviation(-0.1, "torso"))


@dataclass(kw_only=True)
class H1TerminationsCfg(TerminationsCfg):
    """The time is up, or the torso touches something."""

    base_contact: TerminationTermCfg | None = default(base_contact("torso_link"))


@dataclass(kw_only=True)
class H1FlatEnvCfg(VelocityEnvCfg):
    """H1 on a plane."""

    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=(
                *("sensordata", "actuator_force", "qacc"),
                *("cvel", "xipos", "subtree_com"),  # how fast feet slide
            ),
            model_fields=("geom_friction",),
        )
    )
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    commands: CommandsCfg = field(default_factory=H1CommandsCfg)
    events: EventsCfg = field(default_factory=H1EventsCfg)
    rewards: RewardsCfg = field(default_factory=H1RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=H1TerminationsCfg)


@dataclass(kw_only=True)
class PlayEventsCfg(H1EventsCfg):
    """Nothing pushes."""

    base_external_force_torque: EventTermCfg | None = None


@dataclass(kw_only=True)
class H1FlatPlayEnvCfg(H1FlatEnvCfg):
    """Few robots, no noise, no pushes."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = field(default_factory=PlayObservationsCfg)
    events: EventsCfg = field(default_factory=PlayEventsCfg)
