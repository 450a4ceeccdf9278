"""Changes of two-legged robots to :class:`VelocityEnvCfg`. The numbers are Isaac Lab 2.3's."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg
from envlab.envs.terms import reward
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    CommandsCfg,
    EventsCfg,
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

TORSO = "torso_link"


def joints(*names: str) -> SceneEntityCfg:
    """Select joints."""
    return SceneEntityCfg("robot", joint_names=list(names))


def deviation(weight: float, *names: str) -> RewardTermCfg:
    """Return the penalty on joints that walking does not need."""
    return reward(mdp.joint_deviation_l1, weight, asset_cfg=joints(*names))


def feet_air_time(weight: float, feet: str, threshold: float) -> RewardTermCfg:
    """Return the reward for standing on one foot at a time, for up to ``threshold`` s."""
    return reward(
        mdp.feet_air_time_positive_biped,
        weight,
        command_name="base_velocity",
        sensor_cfg=in_contact(feet),
        threshold=threshold,
    )


def feet_slide(weight: float, feet: str) -> RewardTermCfg:
    """Return the penalty on feet that slide while in contact."""
    return reward(
        mdp.feet_slide,
        weight,
        sensor_cfg=in_contact(feet),
        asset_cfg=SceneEntityCfg("robot", body_names=feet),
    )


def velocity_commands(**ranges: tuple[float, float]) -> CommandsCfg:
    """Return the command of a new velocity and heading every 10 s."""
    return CommandsCfg(
        base_velocity=mdp.UniformVelocityCommandCfg(
            resampling_time_range=(10.0, 10.0), ranges=mdp.VelocityRangesCfg(**ranges)
        )
    )


@dataclass(kw_only=True)
class BipedEventsCfg(EventsCfg):
    """Only friction differs; episodes start at rest in the default pose."""

    add_base_mass: EventTermCfg | None = None
    base_com: EventTermCfg | None = None
    base_external_force_torque: EventTermCfg | None = default(external_wrench(TORSO))
    reset_base: EventTermCfg | None = default(reset_base(0.0))
    reset_robot_joints: EventTermCfg | None = default(reset_joints(1.0, 1.0))
    push_robot: EventTermCfg | None = None


NO_PUSHES = BipedEventsCfg(base_external_force_torque=None)


@dataclass(kw_only=True)
class BipedRewardsCfg(RewardsCfg):
    """Do not fall, stay upright, and follow the command in the frame that turns with the yaw."""

    termination_penalty: RewardTermCfg | None = default(reward(mdp.is_terminated, -200.0))
    track_lin_vel_xy_exp: RewardTermCfg | None = default(
        tracking(mdp.track_lin_vel_xy_yaw_frame_exp, 1.0)
    )
    track_ang_vel_z_exp: RewardTermCfg | None = default(
        tracking(mdp.track_ang_vel_z_world_exp, 1.0)
    )
    action_rate_l2: RewardTermCfg | None = default(reward(mdp.action_rate_l2, -0.005))
    undesired_contacts: RewardTermCfg | None = None
    flat_orientation_l2: RewardTermCfg | None = default(reward(mdp.flat_orientation_l2, -1.0))


def biped_sim(*data_fields: str) -> SimulationCfg:
    """Return the simulation with the fields that bipeds' terms read."""
    return SimulationCfg(
        dt=0.005,
        data_fields=(
            *("sensordata", "actuator_force"),
            *("cvel", "xipos", "subtree_com"),  # how fast feet slide
            *data_fields,
        ),
        substep_fields=("qvel",),
        model_fields=("geom_friction",),
    )


@dataclass(kw_only=True)
class BipedEnvCfg(VelocityEnvCfg):
    """A biped on any ground."""

    sim: SimulationCfg = default(biped_sim())
    commands: CommandsCfg = default(velocity_commands(lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0)))
    events: EventsCfg = field(default_factory=BipedEventsCfg)
    terminations: TerminationsCfg = default(TerminationsCfg(base_contact=base_contact(TORSO)))
