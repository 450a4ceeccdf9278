"""The common part of mjlab 1.6.0's velocity tasks, with its numbers.

A robot's task is a function that returns :class:`MjlabVelocityEnvCfg` with its own bodies, and its
variants are functions of it (:mod:`~envlab_tasks.locomotion.velocity.mjlab_variants`). Terms to
which mjlab gives a weight of 0 for a robot are omitted, except ``air_time``: small batches learn to
step with it (``env.rewards.air_time.weight=0.5``).

Differs from mjlab 1.6.0:

- A foot is in contact above 1 N; in mjlab, at any force, and with any geom.
- The height of a swing is forgotten at a reset; mjlab keeps it.
- A play variant ends an episode after 20 s, and has its own id.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import ManagerEnvCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_intervals, at_reset, at_startup, observation, reward, termination
from envlab_tasks.locomotion.velocity.velocity_env_cfg import ActionsCfg

FEET = SceneEntityCfg("feet")
TOUCHES = SceneEntityCfg("contact_forces")
"""The feet in the contact sensor: the models have net forces of no other bodies."""
STEPPING = {"command_name": "twist", "command_threshold": 0.05}
"""Steps count for rewards while the command is faster than this, in m/s and rad/s."""


def sensors(*names: str) -> SceneEntityCfg:
    """Select sensors of the model."""
    return SceneEntityCfg("robot", sensor_names=list(names))


def body(name: str) -> SceneEntityCfg:
    """Select a body."""
    return SceneEntityCfg("robot", body_names=name)


def touching(func: Callable[..., Any]) -> ObservationTermCfg:
    """Return an observation of the feet's contacts."""
    return observation(func, sensor_cfg=TOUCHES)


def upright(body_name: str, **params: Any) -> RewardTermCfg:
    """Return the reward for not tilting a body."""
    return reward(mdp.upright, 1.0, std=math.sqrt(0.2), asset_cfg=body(body_name), **params)


def posture(
    standing: dict[str, float], walking: dict[str, float], running: dict[str, float]
) -> RewardTermCfg:
    """Return the reward for the default pose, of widths in rad by regular expression."""
    return reward(
        mdp.variable_posture,
        1.0,
        command_name="twist",
        std_standing=standing,
        std_walking=walking,
        std_running=running,
        walking_threshold=0.05,
        running_threshold=1.5,
    )


def balance(body_name: str) -> EventTermCfg:
    """Return the shift of a body's centre of mass by up to 2.5 cm, and 3 cm upwards."""
    return at_startup(
        mdp.randomize_rigid_body_com,
        asset_cfg=body(body_name),
        com_range={"x": (-0.025, 0.025), "y": (-0.025, 0.025), "z": (-0.03, 0.03)},
    )


def twist(
    lin_vel_x: tuple[float, float] = (-1.0, 1.0), ang_vel_z: tuple[float, float] = (-0.5, 0.5)
) -> mdp.UniformVelocityCommandCfg:
    """Return the command of a new velocity every 3 to 8 s."""
    return mdp.UniformVelocityCommandCfg(
        resampling_time_range=(3.0, 8.0),
        rel_standing_envs=0.1,
        rel_heading_envs=0.3,
        rel_forward_envs=0.2,
        ranges=mdp.VelocityRangesCfg(lin_vel_x=lin_vel_x, ang_vel_z=ang_vel_z),
    )


@dataclass(kw_only=True)
class CommandsCfg:
    """The velocity command."""

    twist: mdp.UniformVelocityCommandCfg = default(twist())


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """The robot's measurements, with noise; its last action; its command."""

    enable_corruption: bool = True
    base_lin_vel: ObservationTermCfg = default(
        observation(mdp.sensor, 0.5, asset_cfg=sensors("imu_lin_vel"))
    )
    base_ang_vel: ObservationTermCfg = default(
        observation(mdp.sensor, 0.2, asset_cfg=sensors("imu_ang_vel"))
    )
    projected_gravity: ObservationTermCfg = default(observation(mdp.projected_gravity, 0.05))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01, biased=True))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5))
    actions: ObservationTermCfg = default(observation(mdp.last_action))
    command: ObservationTermCfg = default(observation(mdp.generated_commands, command_name="twist"))
    height_scan: ObservationTermCfg | None = None


@dataclass(kw_only=True)
class CriticCfg(PolicyCfg):
    """The same without noise, with true joint positions, and how the feet step."""

    enable_corruption: bool = False
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    foot_height: ObservationTermCfg = default(observation(mdp.foot_height, feet_cfg=FEET))
    foot_air_time: ObservationTermCfg = default(touching(mdp.foot_air_time))
    foot_contact: ObservationTermCfg = default(touching(mdp.foot_contact))
    foot_contact_forces: ObservationTermCfg = default(touching(mdp.foot_contact_forces))


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Robots differ in balance and encoders, start anywhere, and are pushed."""

    reset_base: EventTermCfg | None = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={
                "x": (-0.5, 0.5),
                "y": (-0.5, 0.5),
                "z": (0.01, 0.05),
                "yaw": (-3.14, 3.14),
            },
            velocity_range={},
        )
    )
    reset_robot_joints: EventTermCfg | None = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(0.0, 0.0), velocity_range=(0.0, 0.0))
    )
    push_robot: EventTermCfg | None = default(
        at_intervals(
            (1.0, 3.0),
            mdp.push_by_setting_velocity,
            velocity_range={
                "x": (-0.5, 0.5),
                "y": (-0.5, 0.5),
                "z": (-0.4, 0.4),
                "roll": (-0.52, 0.52),
                "pitch": (-0.52, 0.52),
                "yaw": (-0.78, 0.78),
            },
        )
    )
    foot_friction: EventTermCfg | None = None
    encoder_bias: EventTermCfg | None = default(
        at_startup(mdp.randomize_encoder_bias, bias_range=(-0.015, 0.015))
    )
    base_com: EventTermCfg | None = None
    foot_friction_slide: EventTermCfg | None = None
    foot_friction_spin: EventTermCfg | None = None
    foot_friction_roll: EventTermCfg | None = None
    start_in_motion: EventTermCfg | None = None


@dataclass(kw_only=True)
class RewardsCfg:
    """Follow the command upright, in a natural pose, lifting the feet by 10 cm; be smooth.

    A robot's task sets the body that must be upright, and the widths of its postures.
    """

    track_linear_velocity: RewardTermCfg | None = default(
        reward(mdp.track_linear_velocity, 2.0, command_name="twist", std=math.sqrt(0.25))
    )
    track_angular_velocity: RewardTermCfg | None = default(
        reward(mdp.track_angular_velocity, 2.0, command_name="twist", std=math.sqrt(0.5))
    )
    upright: RewardTermCfg | None = None
    pose: RewardTermCfg | None = None
    body_ang_vel: RewardTermCfg | None = None
    angular_momentum: RewardTermCfg | None = None
    dof_pos_limits: RewardTermCfg | None = default(reward(mdp.joint_pos_limits, -1.0))
    action_rate_l2: RewardTermCfg | None = default(reward(mdp.action_rate_l2, -0.1))
    air_time: RewardTermCfg | None = default(
        reward(
            mdp.feet_air_time_in_range,
            0.0,
            threshold_min=0.05,
            threshold_max=0.5,
            command_name="twist",
            command_threshold=0.5,
            sensor_cfg=TOUCHES,
        )
    )
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
    self_collisions: RewardTermCfg | None = None
    shank_collision: RewardTermCfg | None = None
    trunk_head_collision: RewardTermCfg | None = None


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
    terrain_levels: CurriculumTermCfg | None = None


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, or the root leans by more than 70 degrees."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))
    fell_over: TerminationTermCfg | None = default(
        termination(mdp.bad_orientation, limit_angle=math.radians(70.0))
    )
    out_of_terrain_bounds: TerminationTermCfg | None = None
    illegal_contact: TerminationTermCfg | None = None


@dataclass(kw_only=True)
class SensorsCfg:
    """Contacts and heights of the feet, whose sites a robot's task sets; on rough ground, scans."""

    contact_forces: ContactSensorCfg = default(ContactSensorCfg(history_length=1))
    feet: mdp.FootSensorCfg = default(mdp.FootSensorCfg(site_names=[]))
    terrain_scan: mdp.RayCasterCfg | None = None
    slope: mdp.RayCasterCfg | None = None


def simulation(num_contacts_max: int, num_constraints_max: int) -> SimulationCfg:
    """Return the simulation with the fields that the terms read, and mujoco_warp's buffers."""
    return SimulationCfg(
        dt=0.005,
        data_fields=("sensordata", "xquat", "cvel", "subtree_com", "site_xpos"),
        model_fields=("body_ipos", "geom_friction"),
        num_contacts_max=num_contacts_max,
        num_constraints_max=num_constraints_max,
    )


@dataclass(kw_only=True)
class MjlabVelocityEnvCfg(ManagerEnvCfg):
    """Follow velocity commands for 20 s at 50 Hz."""

    decimation: int = 4
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(simulation(70, 300))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)
