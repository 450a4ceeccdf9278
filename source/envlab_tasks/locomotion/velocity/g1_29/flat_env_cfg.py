"""Mjlab-Velocity-Flat-Unitree-G1. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- A foot touches with more than 1 N, there with any force, and with whatever it touches.
- The height of a swing is forgotten at a reset, there kept.
- A play variant ends an episode after 20 s, and has an id of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import (
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    UniformNoiseCfg,
    default,
    mdp,
)
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab_assets.robots.g1_29 import ACTION_SCALE, MODEL, SOLES

FEET = SceneEntityCfg("feet")
TOUCHES = SceneEntityCfg("contact_forces", body_names=".*_ankle_roll_link")
TORSO = SceneEntityCfg("robot", body_names="torso_link")
WALKING = {
    ".*_hip_pitch_joint": 0.3,
    ".*_hip_(roll|yaw)_joint": 0.15,
    ".*_knee_joint": 0.35,
    ".*_ankle_pitch_joint": 0.25,
    ".*_ankle_roll_joint": 0.1,
    "waist_yaw_joint": 0.2,
    "waist_roll_joint": 0.08,
    "waist_pitch_joint": 0.1,
    ".*_shoulder_(pitch|roll)_joint": 0.15,
    ".*_shoulder_yaw_joint": 0.1,
    ".*_elbow_joint": 0.15,
    ".*_wrist_.*": 0.3,
}
RUNNING = {
    ".*_hip_pitch_joint": 0.5,
    ".*_hip_(roll|yaw)_joint": 0.2,
    ".*_knee_joint": 0.6,
    ".*_ankle_pitch_joint": 0.35,
    ".*_ankle_roll_joint": 0.15,
    "waist_yaw_joint": 0.3,
    "waist_roll_joint": 0.08,
    "waist_pitch_joint": 0.2,
    ".*_shoulder_pitch_joint": 0.5,
    ".*_shoulder_roll_joint": 0.2,
    ".*_shoulder_yaw_joint": 0.15,
    ".*_elbow_joint": 0.35,
    ".*_wrist_.*": 0.3,
}
STEPPING = {"command_name": "twist", "command_threshold": 0.05}
"""What rewards of steps ask of the command, in m/s and rad/s."""


def noisy(func: Callable[..., Any], bound: float, **params: Any) -> ObservationTermCfg:
    """Return an observation with uniform noise of up to ``bound``."""
    noise = UniformNoiseCfg(n_min=-bound, n_max=bound)
    return ObservationTermCfg(func=func, params=params, noise=noise)


def imu(name: str) -> SceneEntityCfg:
    """Select a sensor of the pelvis."""
    return SceneEntityCfg("robot", sensor_names=name)


def touching(func: Callable[..., Any]) -> ObservationTermCfg:
    """Return an observation of how the feet touch."""
    return ObservationTermCfg(func=func, params={"sensor_cfg": TOUCHES})


def reward(func: Callable[..., Any], weight: float, **params: Any) -> RewardTermCfg:
    """Return a reward."""
    return RewardTermCfg(func=func, weight=weight, params=params)


@dataclass(kw_only=True)
class CommandsCfg:
    """Where to go: a new velocity every 3 to 8 s."""

    twist: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(
            resampling_time_range=(3.0, 8.0),
            rel_standing_envs=0.1,
            rel_heading_envs=0.3,
            rel_forward_envs=0.2,
            ranges=mdp.VelocityRangesCfg(ang_vel_z=(-0.5, 0.5)),
        )
    )


@dataclass(kw_only=True)
class PlayCommandsCfg(CommandsCfg):
    """The speeds of training's second stage."""

    twist: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(
            resampling_time_range=(3.0, 8.0),
            rel_standing_envs=0.1,
            rel_heading_envs=0.3,
            rel_forward_envs=0.2,
            ranges=mdp.VelocityRangesCfg(lin_vel_x=(-1.5, 2.0), ang_vel_z=(-0.7, 0.7)),
        )
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Target positions of all joints, as offsets from the default pose."""

    joint_pos: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(joint_names=[".*"], scale=ACTION_SCALE)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """What the robot measures, with noise; its last action; its command."""

    enable_corruption: bool = True
    base_lin_vel: ObservationTermCfg = default(noisy(mdp.sensor, 0.5, asset_cfg=imu("imu_lin_vel")))
    base_ang_vel: ObservationTermCfg = default(noisy(mdp.sensor, 0.2, asset_cfg=imu("imu_ang_vel")))
    projected_gravity: ObservationTermCfg = default(noisy(mdp.projected_gravity, 0.05))
    joint_pos: ObservationTermCfg = default(noisy(mdp.joint_pos_rel, 0.01, biased=True))
    joint_vel: ObservationTermCfg = default(noisy(mdp.joint_vel_rel, 1.5))
    actions: ObservationTermCfg = default(ObservationTermCfg(func=mdp.last_action))
    command: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "twist"})
    )


@dataclass(kw_only=True)
class CriticCfg(PolicyCfg):
    """The same without noise, with true joint positions, and how the feet step."""

    enable_corruption: bool = False
    joint_pos: ObservationTermCfg = default(ObservationTermCfg(func=mdp.joint_pos_rel))
    foot_height: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.foot_height, params={"feet_cfg": FEET})
    )
    foot_air_time: ObservationTermCfg = default(touching(mdp.foot_air_time))
    foot_contact: ObservationTermCfg = default(touching(mdp.foot_contact))
    foot_contact_forces: ObservationTermCfg = default(touching(mdp.foot_contact_forces))


@dataclass(kw_only=True)
class PlayPolicyCfg(PolicyCfg):
    """Without noise."""

    enable_corruption: bool = False


@dataclass(kw_only=True)
class ObservationsCfg:
    """What the policy sees, and what the critic does."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


@dataclass(kw_only=True)
class PlayObservationsCfg(ObservationsCfg):
    """Without noise."""

    policy: PolicyCfg = field(default_factory=PlayPolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Robots differ in friction, balance and encoders, start anywhere, and are pushed."""

    reset_base: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.reset_root_state_uniform,
            mode="reset",
            params={
                "pose_range": {
                    "x": (-0.5, 0.5),
                    "y": (-0.5, 0.5),
                    "z": (0.01, 0.05),
                    "yaw": (-3.14, 3.14),
                },
                "velocity_range": {},
            },
        )
    )
    reset_robot_joints: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.reset_joints_by_offset,
            mode="reset",
            params={"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)},
        )
    )
    push_robot: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.push_by_setting_velocity,
            mode="interval",
            interval_range_s=(1.0, 3.0),
            params={
                "velocity_range": {
                    "x": (-0.5, 0.5),
                    "y": (-0.5, 0.5),
                    "z": (-0.4, 0.4),
                    "roll": (-0.52, 0.52),
                    "pitch": (-0.52, 0.52),
                    "yaw": (-0.78, 0.78),
                }
            },
        )
    )
    foot_friction: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_material,
            mode="startup",
            params={
                "asset_cfg": SceneEntityCfg("robot", geom_names=SOLES),
                "friction_range": (0.3, 1.2),
            },
        )
    )
    encoder_bias: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_encoder_bias, mode="startup", params={"bias_range": (-0.015, 0.015)}
        )
    )
    base_com: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_com,
            mode="startup",
            params={
                "asset_cfg": TORSO,
                "com_range": {"x": (-0.025, 0.025), "y": (-0.025, 0.025), "z": (-0.03, 0.03)},
            },
        )
    )


@dataclass(kw_only=True)
class PlayEventsCfg(EventsCfg):
    """Nothing pushes."""

    push_robot: EventTermCfg | None = None


@dataclass(kw_only=True)
class RewardsCfg:
    """Follow the command upright, in a natural pose, lifting the feet by 10 cm; be smooth."""

    track_linear_velocity: RewardTermCfg | None = default(
        reward(mdp.track_linear_velocity, 2.0, command_name="twist", std=math.sqrt(0.25))
    )
    track_angular_velocity: RewardTermCfg | None = default(
        reward(mdp.track_angular_velocity, 2.0, command_name="twist", std=math.sqrt(0.5))
    )
    upright: RewardTermCfg | None = default(
        reward(mdp.upright, 1.0, std=math.sqrt(0.2), asset_cfg=TORSO)
    )
    pose: RewardTermCfg | None = default(
        reward(
            mdp.variable_posture,
            1.0,
            command_name="twist",
            std_standing={".*": 0.05},
            std_walking=WALKING,
            std_running=RUNNING,
            walking_threshold=0.05,
            running_threshold=1.5,
        )
    )
    body_ang_vel: RewardTermCfg | None = default(
        reward(mdp.body_angular_velocity_penalty, -0.05, asset_cfg=TORSO)
    )
    angular_momentum: RewardTermCfg | None = default(
        reward(mdp.angular_momentum_penalty, -0.02, asset_cfg=imu("root_angmom"))
    )
    dof_pos_limits: RewardTermCfg | None = default(reward(mdp.joint_pos_limits, -1.0))
    action_rate_l2: RewardTermCfg | None = default(reward(mdp.action_rate_l2, -0.1))
    foot_clearance: RewardTermCfg | None = default(
        reward(mdp.feet_clearance, -2.0, target_height=0.1, feet_cfg=FEET, **STEPPING)
    )
    foot_swing_height: RewardTermCfg | None = default(
        reward(
            mdp.feet_swing_height,
            -0.25,
            target_height=0.1,
            sensor_cfg=TOUCHES,
            feet_cfg=FEET,
            **STEPPING,
        )
    )
    foot_slip: RewardTermCfg | None = default(
        reward(mdp.feet_slip, -0.1, sensor_cfg=TOUCHES, feet_cfg=FEET, **STEPPING)
    )
    soft_landing: RewardTermCfg | None = default(
        reward(mdp.soft_landing, -1e-5, sensor_cfg=TOUCHES, **STEPPING)
    )
    self_collisions: RewardTermCfg | None = default(
        reward(mdp.self_collision_cost, -1.0, force_threshold=10.0, asset_cfg=imu("self_collision"))
    )


@dataclass(kw_only=True)
class CurriculumCfg:
    """Faster commands after 5,000 and 10,000 iterations of 24 steps."""

    command_vel: CurriculumTermCfg | None = default(
        CurriculumTermCfg(
            func=mdp.commands_vel,
            params={
                "command_name": "twist",
                "velocity_stages": [
                    {"step": 0, "lin_vel_x": (-1.0, 1.0), "ang_vel_z": (-0.5, 0.5)},
                    {"step": 5000 * 24, "lin_vel_x": (-1.5, 2.0), "ang_vel_z": (-0.7, 0.7)},
                    {"step": 10000 * 24, "lin_vel_x": (-2.0, 3.0)},
                ],
            },
        )
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, or the pelvis leans by more than 70 degrees."""

    time_out: TerminationTermCfg | None = default(
        TerminationTermCfg(func=mdp.time_out, time_out=True)
    )
    fell_over: TerminationTermCfg | None = default(
        TerminationTermCfg(func=mdp.bad_orientation, params={"limit_angle": math.radians(70.0)})
    )


@dataclass(kw_only=True)
class SensorsCfg:
    """How the feet touch, and how high they are lifted."""

    contact_forces: ContactSensorCfg = default(ContactSensorCfg(history_length=1))
    feet: mdp.FootSensorCfg = default(mdp.FootSensorCfg(site_names=["left_foot", "right_foot"]))


@dataclass(kw_only=True)
class G1FlatEnvCfg(ManagerEnvCfg):
    """Follow velocity commands for 20 s at 50 Hz."""

    decimation: int = 4
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "xquat", "cvel", "subtree_com", "site_xpos"),
            model_fields=("body_ipos", "geom_friction"),
            num_contacts_max=70,
            num_constraints_max=300,
        )
    )
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)


@dataclass(kw_only=True)
class G1FlatPlayEnvCfg(G1FlatEnvCfg):
    """Few robots, no noise, no pushes, commands of the second stage from the first step on."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = field(default_factory=PlayObservationsCfg)
    commands: CommandsCfg = field(default_factory=PlayCommandsCfg)
    events: EventsCfg = field(default_factory=PlayEventsCfg)
    curriculum: CurriculumCfg | None = None
