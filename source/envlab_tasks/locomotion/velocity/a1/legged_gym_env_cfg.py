"""LeggedGym-Flat-A1-v0. The numbers are legged_gym's LeggedRobotCfg and A1RoughCfg (8fa29ac).

One thing differs: a single coefficient of friction replaces its average with the ground's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg
from envlab.envs.terms import at_reset, observation, reward
from envlab_tasks.locomotion.velocity.a1.env import (
    LeggedGymCommandCfg,
    dof_acc,
    push_robots,
    scaled_commands,
)
from envlab_tasks.locomotion.velocity.velocity_env_cfg import (
    AXES,
    ActionsCfg,
    CommandsCfg,
    EventsCfg,
    ObservationsCfg,
    PolicyCfg,
    RewardsCfg,
    VelocityEnvCfg,
    feet_air_time,
    reset_joints,
    scaled_actions,
    undesired_contacts,
)


@dataclass(kw_only=True)
class A1PolicyCfg(PolicyCfg):
    """legged_gym's 48 observations, in its order and scales."""

    base_lin_vel: ObservationTermCfg = default(observation(mdp.base_lin_vel, 0.1, scale=2.0))
    base_ang_vel: ObservationTermCfg = default(observation(mdp.base_ang_vel, 0.2, scale=0.25))
    velocity_commands: ObservationTermCfg = default(
        observation(scaled_commands, command_name="base_velocity")
    )
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5, scale=0.05))


@dataclass(kw_only=True)
class A1EventsCfg(EventsCfg):
    """Episodes start at the origin, in motion; robots differ in friction, and are pushed."""

    physics_material: EventTermCfg | None = default(
        EventTermCfg(
            func=mdp.randomize_rigid_body_material,
            mode="startup",
            # 0.5 to 1.25, averaged with the ground's 1 as in PhysX.
            params={"asset_cfg": SceneEntityCfg("robot"), "friction_range": (0.75, 1.125)},
        )
    )
    add_base_mass: EventTermCfg | None = None
    base_com: EventTermCfg | None = None
    base_external_force_torque: EventTermCfg | None = None
    reset_base: EventTermCfg | None = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={},
            velocity_range=dict.fromkeys(AXES, (-0.5, 0.5)),
        )
    )
    reset_robot_joints: EventTermCfg | None = default(reset_joints(0.5, 1.5))
    push_robot: EventTermCfg | None = default(
        EventTermCfg(
            func=push_robots,
            mode="interval",
            interval_range_s=(15.0, 15.0),
            is_global_time=True,
            params={"max_push_vel_xy": 1.0},
        )
    )


@dataclass(kw_only=True)
class A1RewardsCfg(RewardsCfg):
    """A1's changes; tracking, smoothness and the rest are as in all velocity tasks."""

    dof_acc_l2: RewardTermCfg | None = default(reward(dof_acc, -2.5e-7))
    dof_torques_l2: RewardTermCfg | None = default(reward(mdp.joint_torques_l2, -2.0e-4))
    feet_air_time: RewardTermCfg | None = default(feet_air_time(1.0))
    undesired_contacts: RewardTermCfg | None = default(undesired_contacts(".*_(thigh|calf)", 0.1))
    flat_orientation_l2: RewardTermCfg | None = None
    dof_pos_limits: RewardTermCfg | None = default(reward(mdp.joint_pos_limits, -10.0))


@dataclass(kw_only=True)
class A1FlatEnvCfg(VelocityEnvCfg):
    """A1 on a plane."""

    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("sensordata", "actuator_force"),
            model_fields=("geom_friction",),
        )
    )
    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model="envlab_tasks:locomotion/velocity/a1/a1.xml")
    )
    observations: ObservationsCfg = default(ObservationsCfg(policy=A1PolicyCfg()))
    actions: ActionsCfg = default(scaled_actions(0.25))
    commands: CommandsCfg = default(
        CommandsCfg(base_velocity=LeggedGymCommandCfg(resampling_time_range=(10.0, 10.0)))
    )
    events: EventsCfg = field(default_factory=A1EventsCfg)
    rewards: RewardsCfg = field(default_factory=A1RewardsCfg)
