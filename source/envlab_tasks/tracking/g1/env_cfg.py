"""Mjlab-Tracking-Flat-Unitree-G1, with and without state estimation. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- It has a motion to start with, a squat; ``env.commands.motion.motion_file`` names another.
- The command differs as described in ``envlab.envs.mdp.motion_command``.
- A play variant ends an episode after 10 s, like training, and has its own id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import (
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_intervals, at_startup, observation, reward, termination
from envlab_assets.robots.g1_29 import ACTION_SCALE, MODEL, SOLES

MOTION = "envlab_assets:motions/g1_squat.npz"
BODIES = [
    "pelvis",
    *("left_hip_roll_link", "left_knee_link", "left_ankle_roll_link"),
    *("right_hip_roll_link", "right_knee_link", "right_ankle_roll_link"),
    "torso_link",
    *("left_shoulder_roll_link", "left_elbow_link", "left_wrist_yaw_link"),
    *("right_shoulder_roll_link", "right_elbow_link", "right_wrist_yaw_link"),
]
FEET_AND_HANDS = [
    *("left_ankle_roll_link", "right_ankle_roll_link"),
    *("left_wrist_yaw_link", "right_wrist_yaw_link"),
]
VELOCITIES = {
    "x": (-0.5, 0.5),
    "y": (-0.5, 0.5),
    "z": (-0.2, 0.2),
    "roll": (-0.52, 0.52),
    "pitch": (-0.52, 0.52),
    "yaw": (-0.78, 0.78),
}


def followed(func: Callable[..., Any], noise: float | None = None) -> ObservationTermCfg:
    """Return an observation of the motion, with uniform noise of up to ``noise``."""
    return observation(func, noise, command_name="motion")


def imu(name: str, noise: float | None = None) -> ObservationTermCfg:
    """Return a reading of the pelvis's sensors."""
    return observation(mdp.sensor, noise, asset_cfg=SceneEntityCfg("robot", sensor_names=name))


def close(func: Callable[..., Any], weight: float, std: float) -> RewardTermCfg:
    """Return a reward for being close to the motion; ``std`` in the units of its quantity."""
    return reward(func, weight, command_name="motion", std=std)


def away(func: Callable[..., Any], threshold: float, **params: Any) -> TerminationTermCfg:
    """Return the failure of being too far from the motion."""
    return termination(func, command_name="motion", threshold=threshold, **params)


@dataclass(kw_only=True)
class CommandsCfg:
    """The motion."""

    motion: mdp.MotionCommandCfg = default(
        mdp.MotionCommandCfg(
            motion_file=MOTION,
            anchor_body_name="torso_link",
            body_names=BODIES,
            pose_range={
                "x": (-0.05, 0.05),
                "y": (-0.05, 0.05),
                "z": (-0.01, 0.01),
                "roll": (-0.1, 0.1),
                "pitch": (-0.1, 0.1),
                "yaw": (-0.2, 0.2),
            },
            velocity_range=VELOCITIES,
            joint_position_range=(-0.1, 0.1),
        )
    )


FROM_THE_START = CommandsCfg(
    motion=mdp.MotionCommandCfg(
        motion_file=MOTION,
        anchor_body_name="torso_link",
        body_names=BODIES,
        joint_position_range=(-0.1, 0.1),
        sampling_mode="start",
    )
)
"""The motion from its first frame, from exactly its state."""


@dataclass(kw_only=True)
class ActionsCfg:
    """Target positions of all joints, as offsets from the default pose."""

    joint_pos: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(joint_names=[".*"], scale=ACTION_SCALE)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """The motion, what the robot measures of itself, and its last action."""

    enable_corruption: bool = True
    command: ObservationTermCfg = default(followed(mdp.generated_commands))
    motion_anchor_pos_b: ObservationTermCfg | None = default(
        followed(mdp.motion_anchor_pos_b, 0.25)
    )
    motion_anchor_ori_b: ObservationTermCfg = default(followed(mdp.motion_anchor_ori_b, 0.05))
    base_lin_vel: ObservationTermCfg | None = default(imu("imu_lin_vel", 0.5))
    base_ang_vel: ObservationTermCfg = default(imu("imu_ang_vel", 0.2))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01, biased=True))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 0.5))
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class CriticCfg(ObservationGroupCfg):
    """The same without noise, and the positions of the robot's bodies."""

    command: ObservationTermCfg = default(followed(mdp.generated_commands))
    motion_anchor_pos_b: ObservationTermCfg = default(followed(mdp.motion_anchor_pos_b))
    motion_anchor_ori_b: ObservationTermCfg = default(followed(mdp.motion_anchor_ori_b))
    body_pos: ObservationTermCfg = default(followed(mdp.robot_body_pos_b))
    body_ori: ObservationTermCfg = default(followed(mdp.robot_body_ori_b))
    base_lin_vel: ObservationTermCfg = default(imu("imu_lin_vel"))
    base_ang_vel: ObservationTermCfg = default(imu("imu_ang_vel"))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Robots differ in friction, balance and encoders, and are pushed."""

    push_robot: EventTermCfg | None = default(
        at_intervals((1.0, 3.0), mdp.push_by_setting_velocity, velocity_range=VELOCITIES)
    )
    base_com: EventTermCfg | None = default(
        at_startup(
            mdp.randomize_rigid_body_com,
            asset_cfg=SceneEntityCfg("robot", body_names="torso_link"),
            com_range={"x": (-0.025, 0.025), "y": (-0.05, 0.05), "z": (-0.05, 0.05)},
        )
    )
    encoder_bias: EventTermCfg | None = default(
        at_startup(mdp.randomize_encoder_bias, bias_range=(-0.01, 0.01))
    )
    foot_friction: EventTermCfg | None = default(
        at_startup(
            mdp.randomize_rigid_body_material,
            asset_cfg=SceneEntityCfg("robot", geom_names=SOLES),
            friction_range=(0.3, 1.2),
        )
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Match the motion's positions, orientations and speeds; be smooth; avoid self-collisions."""

    motion_global_root_pos: RewardTermCfg | None = default(
        close(mdp.motion_global_anchor_position_error_exp, 0.5, 0.3)
    )
    motion_global_root_ori: RewardTermCfg | None = default(
        close(mdp.motion_global_anchor_orientation_error_exp, 0.5, 0.4)
    )
    motion_body_pos: RewardTermCfg | None = default(
        close(mdp.motion_relative_body_position_error_exp, 1.0, 0.3)
    )
    motion_body_ori: RewardTermCfg | None = default(
        close(mdp.motion_relative_body_orientation_error_exp, 1.0, 0.4)
    )
    motion_body_lin_vel: RewardTermCfg | None = default(
        close(mdp.motion_global_body_linear_velocity_error_exp, 1.0, 1.0)
    )
    motion_body_ang_vel: RewardTermCfg | None = default(
        close(mdp.motion_global_body_angular_velocity_error_exp, 1.0, 3.14)
    )
    action_rate_l2: RewardTermCfg | None = default(reward(mdp.action_rate_l2, -0.1))
    joint_limit: RewardTermCfg | None = default(reward(mdp.joint_pos_limits, -10.0))
    self_collisions: RewardTermCfg | None = default(
        reward(
            mdp.self_collision_cost,
            -10.0,
            force_threshold=10.0,
            asset_cfg=SceneEntityCfg("robot", sensor_names="self_collision"),
        )
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, or the trunk, a foot or a hand is too far away."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))
    anchor_pos: TerminationTermCfg | None = default(away(mdp.bad_anchor_pos_z_only, 0.25))
    anchor_ori: TerminationTermCfg | None = default(away(mdp.bad_anchor_ori, 0.8))
    ee_body_pos: TerminationTermCfg | None = default(
        away(mdp.bad_motion_body_pos_z_only, 0.25, body_names=FEET_AND_HANDS)
    )


@dataclass(kw_only=True)
class G1TrackingEnvCfg(ManagerEnvCfg):
    """Follow a motion for 10 s at 50 Hz, repeating shorter ones."""

    decimation: int = 4
    episode_length_s: float = 10.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "xpos", "xquat", "cvel", "subtree_com"),
            substep_fields=("sensordata",),
            model_fields=("body_ipos", "geom_friction"),
            num_contacts_max=35,
            num_constraints_max=250,
        )
    )
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)


@dataclass(kw_only=True)
class G1TrackingPlayEnvCfg(G1TrackingEnvCfg):
    """Few robots, no noise, no pushes, from the motion's start."""

    scene: SceneCfg = default(SceneCfg(num_envs=50, model=MODEL))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )
    commands: CommandsCfg = default(FROM_THE_START)
    events: EventsCfg = default(EventsCfg(push_robot=None))


@dataclass(kw_only=True)
class BlindPolicyCfg(PolicyCfg):
    """Without the terms that need state estimation."""

    motion_anchor_pos_b: ObservationTermCfg | None = None
    base_lin_vel: ObservationTermCfg | None = None


@dataclass(kw_only=True)
class G1TrackingNoStateEstimationEnvCfg(G1TrackingEnvCfg):
    """The robot cannot measure its position and velocity."""

    observations: ObservationsCfg = default(ObservationsCfg(policy=BlindPolicyCfg()))


@dataclass(kw_only=True)
class G1TrackingNoStateEstimationPlayEnvCfg(G1TrackingPlayEnvCfg):
    """The same to be played."""

    observations: ObservationsCfg = default(
        ObservationsCfg(policy=BlindPolicyCfg(enable_corruption=False))
    )
