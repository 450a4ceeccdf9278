"""The common part of velocity tasks: Isaac Lab 2.3's ``LocomotionVelocityRoughEnvCfg`` on a plane.

A robot's task is a function that returns :class:`VelocityEnvCfg` with its bodies and numbers; its
variants are functions of that configuration (:mod:`~envlab_tasks.locomotion.velocity.variants`).
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
from envlab.envs.terms import at_intervals, at_reset, at_startup, observation, reward, termination

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


def in_contact(body_names: str) -> SceneEntityCfg:
    """Select bodies of the contact sensor."""
    return SceneEntityCfg("contact_forces", body_names=body_names)


def tracking(func: Callable[..., Any], weight: float) -> RewardTermCfg:
    """Return a reward for following the command, of width 0.5 m/s or rad/s."""
    return reward(func, weight, command_name="base_velocity", std=math.sqrt(0.25))


def feet_air_time(weight: float, feet: str = ".*_foot") -> RewardTermCfg:
    """Return the reward for steps of more than 0.5 s."""
    return reward(
        mdp.feet_air_time,
        weight,
        sensor_cfg=in_contact(feet),
        command_name="base_velocity",
        threshold=0.5,
    )


def undesired_contacts(body_names: str, threshold: float = 1.0) -> RewardTermCfg:
    """Return the penalty on contacts of more than ``threshold`` N."""
    return reward(
        mdp.undesired_contacts, -1.0, sensor_cfg=in_contact(body_names), threshold=threshold
    )


def base_mass(body_names: str, low: float, high: float) -> EventTermCfg:
    """Return a change of mass, from a range in kg."""
    return at_startup(
        mdp.randomize_rigid_body_mass,
        asset_cfg=SceneEntityCfg("robot", body_names=body_names),
        mass_distribution_params=(low, high),
        operation="add",
    )


def reset_base(velocity: float) -> EventTermCfg:
    """Return a reset up to 0.5 m off the origin, in any direction, at up to ``velocity``."""
    return at_reset(
        mdp.reset_root_state_uniform,
        pose_range={"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-3.14, 3.14)},
        velocity_range=dict.fromkeys(AXES, (-velocity, velocity)),
    )


def reset_joints(low: float, high: float, **params: float) -> EventTermCfg:
    """Return a reset of the joints to their defaults times a factor, at rest.

    Args:
        low: Lowest factor.
        high: Highest factor.
        params: More of :func:`mdp.reset_joints_by_scale`.
    """
    return at_reset(
        mdp.reset_joints_by_scale,
        position_range=(low, high),
        velocity_range=(0.0, 0.0),
        **params,
    )


def external_wrench(body_names: str) -> EventTermCfg:
    """Return a lasting push that is zero until an override gives it a range."""
    return at_reset(
        mdp.apply_external_force_torque,
        asset_cfg=SceneEntityCfg("robot", body_names=body_names),
        force_range=(0.0, 0.0),
        torque_range=(0.0, 0.0),
    )


def base_contact(body_names: str) -> TerminationTermCfg:
    """Return the failure of a contact of more than 1 N on bodies that must not touch."""
    return termination(mdp.illegal_contact, sensor_cfg=in_contact(body_names), threshold=1.0)


@dataclass(kw_only=True)
class CommandsCfg:
    """The velocity command, new every 10 s."""

    base_velocity: mdp.UniformVelocityCommandCfg = default(
        mdp.UniformVelocityCommandCfg(resampling_time_range=(10.0, 10.0))
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Target positions of all joints, as offsets from the default pose."""

    joint_pos: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(joint_names=[".*"], scale=0.5)
    )


def scaled_actions(scale: float | dict[str, float]) -> ActionsCfg:
    """Return the actions with a scale in rad per unit of action."""
    return ActionsCfg(joint_pos=mdp.JointPositionActionCfg(joint_names=[".*"], scale=scale))


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """The robot's measurements, with noise; its command; its last action."""

    enable_corruption: bool = True
    base_lin_vel: ObservationTermCfg | None = default(observation(mdp.base_lin_vel, 0.1))
    base_ang_vel: ObservationTermCfg = default(observation(mdp.base_ang_vel, 0.2))
    projected_gravity: ObservationTermCfg = default(observation(mdp.projected_gravity, 0.05))
    velocity_commands: ObservationTermCfg = default(
        observation(mdp.generated_commands, command_name="base_velocity")
    )
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5))
    actions: ObservationTermCfg = default(observation(mdp.last_action))
    height_scan: ObservationTermCfg | None = None


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Robots differ in friction and mass, start anywhere in any pose, and are pushed."""

    physics_material: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_material,
            mode="startup",
            # Isaac Lab's static and dynamic coefficients, of which MuJoCo has one.
            params={"asset_cfg": SceneEntityCfg("robot"), "friction_range": (0.6, 0.8)},
        )
    )
    add_base_mass: EventTermCfg | None = default(base_mass("base", -5.0, 5.0))
    base_com: EventTermCfg | None = default(
        at_startup(
            mdp.randomize_rigid_body_com,
            asset_cfg=SceneEntityCfg("robot", body_names="base"),
            com_range={"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01)},
        )
    )
    base_external_force_torque: EventTermCfg | None = default(external_wrench("base"))
    reset_base: EventTermCfg | None = default(reset_base(0.5))
    reset_robot_joints: EventTermCfg | None = default(reset_joints(0.5, 1.5))
    push_robot: EventTermCfg | None = default(
        at_intervals(
            (10.0, 15.0),
            mdp.push_by_setting_velocity,
            velocity_range={"x": (-0.5, 0.5), "y": (-0.5, 0.5)},
        )
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Follow the command, take long steps, and be smooth. Weights are per second."""

    track_lin_vel_xy_exp: RewardTermCfg | None = default(tracking(mdp.track_lin_vel_xy_exp, 1.0))
    track_ang_vel_z_exp: RewardTermCfg | None = default(tracking(mdp.track_ang_vel_z_exp, 0.5))
    lin_vel_z_l2: RewardTermCfg | None = default(reward(mdp.lin_vel_z_l2, -2.0))
    ang_vel_xy_l2: RewardTermCfg | None = default(reward(mdp.ang_vel_xy_l2, -0.05))
    dof_torques_l2: RewardTermCfg | None = default(reward(mdp.joint_torques_l2, -1.0e-5))
    dof_acc_l2: RewardTermCfg | None = default(reward(mdp.joint_acc_l2, -2.5e-7))
    action_rate_l2: RewardTermCfg | None = default(reward(mdp.action_rate_l2, -0.01))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(0.125))
    undesired_contacts: RewardTermCfg | None = default(undesired_contacts(".*_thigh"))
    flat_orientation_l2: RewardTermCfg | None = default(reward(mdp.flat_orientation_l2, 0.0))
    dof_pos_limits: RewardTermCfg | None = default(reward(mdp.joint_pos_limits, 0.0))


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up, or the base touches something."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))
    base_contact: TerminationTermCfg | None = default(base_contact("base"))


@dataclass(kw_only=True)
class SensorsCfg:
    """Contact forces on bodies with a contact sensor in the model; on rough ground, a scan."""

    contact_forces: ContactSensorCfg = field(default_factory=ContactSensorCfg)
    height_scanner: mdp.RayCasterCfg | None = None


@dataclass(kw_only=True)
class CurriculumCfg:
    """Robots that walk far get harder ground."""

    terrain_levels: CurriculumTermCfg | None = default(
        CurriculumTermCfg(func=mdp.terrain_levels_vel)
    )


@dataclass(kw_only=True)
class VelocityEnvCfg(ManagerEnvCfg):
    """Follow velocity commands for 20 s at 50 Hz."""

    decimation: int = 4
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "actuator_force"),
            substep_fields=("qvel",),
            model_fields=("body_mass", "body_inertia", "body_ipos", "geom_friction"),
            # Go2 on rough ground, under random actions, needed 29 and 117. mujoco_warp's own guess,
            # 128 and 1,024, takes four times the memory.
            num_contacts_max=48,
            num_constraints_max=256,
        )
    )
    scene: SceneCfg = field(default_factory=SceneCfg)
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)
    curriculum: CurriculumCfg | None = None
