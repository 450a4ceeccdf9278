"""Playground-T1JoystickFlatTerrain-v0. The numbers are MuJoCo Playground's.

Differs from MuJoCo Playground:

- A T1's foot touches the ground with more than 1 N, and is in the air until it does; in Playground,
  a touch in the step before also counts. The observed phase of the gait is that of the next reward;
  in Playground, of the last reward.
- T1's critic sees each quantity once, without noise; Playground's also sees the noisy observations.
- T1's commands are drawn every 10 s; in Playground, once after 10 s, then in every step.
- All of a T1 collides with the ground; in Playground, only its soles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_intervals, observation, reward, termination
from envlab_assets.robots.t1 import FEET, MODEL
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import sensors, touching
from envlab_tasks.locomotion.velocity.t1 import rewards as t1_rewards
from envlab_tasks.locomotion.velocity.t1.gait_phase import GaitPhaseCfg
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    ActionsCfg,
    reset_base,
    reset_joints,
    scaled_actions,
)

COMMAND = {"command_name": "joystick"}
TOUCHES = SceneEntityCfg("contact_forces")
SOLES = SceneEntityCfg("robot", site_names=FEET)
HIPS = SceneEntityCfg("robot", joint_names="(Left|Right)_Hip_(Roll|Yaw)")
KNEES = SceneEntityCfg("robot", joint_names="(Left|Right)_Knee_Pitch")
POSE_WEIGHTS = {
    "(Left|Right)_(Hip|Knee)_Pitch": 0.01,
    "(Left|Right)_Shoulder_Pitch": 0.1,
    "(AAHead_yaw|Head_pitch|Waist|.*_(Shoulder_Roll|Elbow_.*|Hip_(Roll|Yaw)|Ankle_.*))": 1.0,
}


def observed(name: str) -> ObservationTermCfg:
    """Return an observation that is a command."""
    return observation(mdp.generated_commands, command_name=name)


def sensed(*names: str) -> ObservationTermCfg:
    """Return an observation by sensors of the model, without noise."""
    return observation(mdp.sensor, asset_cfg=sensors(*names))


@dataclass(kw_only=True)
class CommandsCfg:
    """The velocity command, and the gait's phase."""

    joystick: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0),
            heading_command=False,
            rel_standing_envs=0.1,
            ranges=mdp.VelocityRangesCfg(
                lin_vel_x=(-1.0, 1.0), lin_vel_y=(-0.8, 0.8), ang_vel_z=(-1.0, 1.0)
            ),
        )
    )
    phase: GaitPhaseCfg = default(GaitPhaseCfg(command_name="joystick"))


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """The robot's measurements, with noise; its command, its last action, and its phase."""

    enable_corruption: bool = True
    base_lin_vel: ObservationTermCfg = default(
        observation(mdp.sensor, 0.1, asset_cfg=sensors("imu_lin_vel"))
    )
    base_ang_vel: ObservationTermCfg = default(
        observation(mdp.sensor, 0.2, asset_cfg=sensors("imu_ang_vel"))
    )
    projected_gravity: ObservationTermCfg = default(observation(mdp.projected_gravity, 0.05))
    command: ObservationTermCfg = default(observed("joystick"))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.03))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5))
    actions: ObservationTermCfg = default(observation(mdp.last_action))
    phase: ObservationTermCfg = default(observed("phase"))


@dataclass(kw_only=True)
class CriticCfg(PolicyCfg):
    """The same without noise, plus motion of the body, and motion and contacts of the feet."""

    enable_corruption: bool = False
    imu_lin_acc: ObservationTermCfg = default(sensed("imu_lin_acc"))
    ang_vel_w: ObservationTermCfg = default(observation(mdp.root_ang_vel_w))
    root_height: ObservationTermCfg = default(observation(mdp.base_pos_z))
    actuator_force: ObservationTermCfg = default(observation(mdp.actuator_force))
    foot_contact: ObservationTermCfg = default(touching(mdp.foot_contact))
    foot_vel: ObservationTermCfg = default(sensed("left_foot_vel", "right_foot_vel"))
    foot_air_time: ObservationTermCfg = default(touching(mdp.foot_air_time))


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Robots start anywhere, with other joints and moving, and are pushed."""

    reset_base: EventTermCfg | None = default(reset_base(0.5))
    reset_joints: EventTermCfg | None = default(reset_joints(0.5, 1.5))
    push_robot: EventTermCfg | None = default(
        at_intervals((5.0, 10.0), t1_rewards.push_horizontally, speed_range=(0.1, 1.0))
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Follow the command upright, stepping in phase, in a natural pose."""

    tracking_lin_vel: RewardTermCfg | None = default(
        reward(t1_rewards.track_linear_velocity, 1.0, sigma=0.25, **COMMAND)
    )
    tracking_ang_vel: RewardTermCfg | None = default(
        reward(t1_rewards.track_angular_velocity, 0.5, sigma=0.25, **COMMAND)
    )
    ang_vel_xy: RewardTermCfg | None = default(reward(mdp.ang_vel_xy_l2, -0.15))
    orientation: RewardTermCfg | None = default(reward(mdp.flat_orientation_l2, -1.0))
    feet_slip: RewardTermCfg | None = default(
        reward(t1_rewards.feet_slip, -0.25, sensor_cfg=TOUCHES)
    )
    feet_air_time: RewardTermCfg | None = default(
        reward(t1_rewards.feet_air_time, 2.0, sensor_cfg=TOUCHES, **COMMAND)
    )
    feet_phase: RewardTermCfg | None = default(
        reward(t1_rewards.feet_phase, 1.0, phase_name="phase", swing_height=0.12, asset_cfg=SOLES)
    )
    alive: RewardTermCfg | None = default(reward(mdp.is_alive, 0.25))
    collision: RewardTermCfg | None = default(
        reward(t1_rewards.sensor_found, -1.0, asset_cfg=sensors("feet_touch"))
    )
    joint_deviation_hip: RewardTermCfg | None = default(
        reward(t1_rewards.sideways_deviation, -0.1, asset_cfg=HIPS, **COMMAND)
    )
    joint_deviation_knee: RewardTermCfg | None = default(
        reward(mdp.joint_deviation_l1, -0.1, asset_cfg=KNEES)
    )
    dof_pos_limits: RewardTermCfg | None = default(
        reward(mdp.joint_pos_limits, -1.0, soft_limit_factor=0.95)
    )
    pose: RewardTermCfg | None = default(
        reward(t1_rewards.weighted_pose, -1.0, weights=POSE_WEIGHTS)
    )
    feet_distance: RewardTermCfg | None = default(
        reward(t1_rewards.feet_too_close, -1.0, feet_cfg=SOLES)
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, or the trunk is upside down."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))
    fell_over: TerminationTermCfg | None = default(
        termination(mdp.bad_orientation, limit_angle=math.radians(90.0))
    )


@dataclass(kw_only=True)
class SensorsCfg:
    """Contacts of the feet."""

    contact_forces: ContactSensorCfg = default(ContactSensorCfg(history_length=1))


@dataclass(kw_only=True)
class T1JoystickEnvCfg(ManagerEnvCfg):
    """T1 follows velocity commands for 20 s at 50 Hz."""

    decimation: int = 10
    episode_length_s: float = 20.0
    scene: SceneCfg = default(SceneCfg(num_envs=8192, model=MODEL))
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.002,
            data_fields=("sensordata", "site_xpos", "actuator_force"),
            num_contacts_max=40,
            num_constraints_max=200,
        )
    )
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = default(scaled_actions(1.0))
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)
