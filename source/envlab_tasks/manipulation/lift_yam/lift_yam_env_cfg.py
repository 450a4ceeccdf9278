"""Mjlab-Lift-Cube-Yam. The numbers are mjlab 1.6.0's.

Differs from mjlab 1.6.0:

- The robot's base is fixed to the world; in mjlab, an event puts it back at each reset.
- The arm's visible shapes are primitives; masses and collision shapes are the same.
- A play variant ends an episode after 20 s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    ShapeCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.contact_match import ContactMatch
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, at_startup, observation, reward, termination
from envlab_tasks.manipulation.lift_yam import lift_terms
from envlab_tasks.manipulation.lift_yam.lifting_command import (
    LiftingCommandCfg,
    ObjectPoseRangeCfg,
)

HOME = {
    "joint2": 1.047,
    "joint3": 1.05,
    "joint4": -0.9,
    "left_finger": 0.01875,
    "right_finger": -0.01875,
}
"""Where joints start, in rad and m; the others at 0."""
ACTION_SCALE = {
    "joint1": 0.359942655,
    "joint2": 0.159791853,
    "joint3": 0.190442716,
    "joint4": 0.525019399,
    "joint5": 1.73476166,
    "joint6": 5.52002613,
    "left_finger": 0.0865739559,
}
"""A quarter of the effort limit over the stiffness, in rad and m."""
FINGERTIPS = SceneEntityCfg("robot", geom_names="[lr]f_down(6|7|8|9|10|11)_collision")
COMMAND: dict[str, Any] = {"command_name": "lift_height"}


def yam() -> EntityCfg:
    """Return the arm, 1 cm above the ground; its names have no prefix."""
    return EntityCfg(
        model="envlab_assets:robots/yam.xml",
        prefix="",
        init_state=InitialStateCfg(pos=(0.0, 0.0, 0.01), joint_pos=HOME),
    )


def cube(rgb: tuple[float, float, float] = (0.8, 0.2, 0.2)) -> EntityCfg:
    """Return a cube of 4 cm and 50 g."""
    shape = ShapeCfg(type="box", size=(0.02, 0.02, 0.02), mass=0.05, rgba=(*rgb, 1.0))
    return EntityCfg(shape=shape, init_state=InitialStateCfg(pos=(0.35, 0.0, 0.02)))


def scene(num_envs: int = 4096, **cubes: EntityCfg) -> SceneCfg:
    """Return the arm on a plane, with cubes."""
    return SceneCfg(num_envs=num_envs, ground=True, entities={"robot": yam(), **cubes})


def simulation(num_contacts_max: int = 55) -> SimulationCfg:
    """Return the simulation with the fields that the terms read, and mujoco_warp's buffers."""
    return SimulationCfg(
        dt=0.005,
        iterations=10,
        ls_iterations=20,
        impratio=10.0,
        cone="elliptic",
        data_fields=("xpos", "xquat", "site_xpos"),
        num_contacts_max=num_contacts_max,
        num_constraints_max=600,
    )


def _lift(seconds: tuple[float, float]) -> LiftingCommandCfg:
    return LiftingCommandCfg(
        entity_names=["cube"],
        resampling_time_range=seconds,
        difficulty="dynamic",
        object_pose_range=ObjectPoseRangeCfg(x=(0.2, 0.4), y=(-0.2, 0.2), yaw=(-3.14, 3.14)),
    )


@dataclass(kw_only=True)
class CommandsCfg:
    """Another place, and the cube put elsewhere, every 8 to 12 s."""

    lift_height: LiftingCommandCfg = default(_lift((8.0, 12.0)))


@dataclass(kw_only=True)
class ActionsCfg:
    """Targets of the arm's joints and of the left finger, which the right one mirrors."""

    joint_pos: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(
            asset_name="robot", joint_names=[*ACTION_SCALE], scale=ACTION_SCALE
        )
    )


@dataclass(kw_only=True)
class RobotCfg(ObservationGroupCfg):
    """What all tasks of this robot observe: its joints."""

    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5))


@dataclass(kw_only=True)
class CriticCfg(RobotCfg):
    """Joints (8 each), the ways to the cube and to its place, and the last action."""

    ee_to_cube: ObservationTermCfg = default(
        observation(lift_terms.ee_to_object_distance, 0.01, **COMMAND)
    )
    cube_to_goal: ObservationTermCfg = default(
        observation(lift_terms.object_to_goal_distance, 0.01, **COMMAND)
    )
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class PolicyCfg(CriticCfg):
    """The same with noise."""

    enable_corruption: bool = True


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


def _friction(
    axis: int, ranges: tuple[float, float], distribution: mdp.dr.Distribution = "log_uniform"
) -> EventTermCfg:
    """Return the draw of one of the fingertips' coefficients, for each of them."""
    return at_startup(
        mdp.dr.geom_friction,
        asset_cfg=FINGERTIPS,
        operation="abs",
        distribution=distribution,
        axes=[axis],
        ranges=ranges,
    )


@dataclass(kw_only=True)
class EventsCfg:
    """The arm starts at home; fingertips slip more or less."""

    reset_robot_joints: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(0.0, 0.0), velocity_range=(0.0, 0.0))
    )
    fingertip_friction_slide: EventTermCfg = default(_friction(0, (0.3, 1.5), "uniform"))
    fingertip_friction_spin: EventTermCfg = default(_friction(1, (1e-4, 2e-2)))
    fingertip_friction_roll: EventTermCfg = default(_friction(2, (1e-5, 5e-3)))


@dataclass(kw_only=True)
class RewardsCfg:
    """Reach the cube, bring it to its place, and move calmly. Weights are per second."""

    lift: RewardTermCfg = default(
        reward(
            lift_terms.staged_position_reward, 1.0, reaching_std=0.2, bringing_std=0.3, **COMMAND
        )
    )
    lift_precise: RewardTermCfg = default(
        reward(lift_terms.bring_object_reward, 1.0, std=0.05, **COMMAND)
    )
    action_rate_l2: RewardTermCfg = default(reward(mdp.action_rate_l2, -0.01))
    joint_pos_limits: RewardTermCfg = default(reward(mdp.joint_pos_limits, -10.0))
    joint_vel_hinge: RewardTermCfg = default(
        reward(lift_terms.joint_velocity_hinge_penalty, -0.01, max_vel=0.5)
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time limit, and a gripper that hits the ground with more than 10 N."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    ee_ground_collision: TerminationTermCfg = default(
        termination(
            mdp.illegal_contact, threshold=10.0, sensor_cfg=SceneEntityCfg("ee_ground_collision")
        )
    )


@dataclass(kw_only=True)
class CurriculumCfg:
    """Calm counts ten times as much after 500 iterations of 24 steps, and again after 1000."""

    joint_vel_hinge_weight: CurriculumTermCfg = default(
        CurriculumTermCfg(
            func=mdp.reward_curriculum,
            params={
                "reward_name": "joint_vel_hinge",
                "stages": [
                    {"step": 0, "weight": -0.01},
                    {"step": 500 * 24, "weight": -0.1},
                    {"step": 1000 * 24, "weight": -1.0},
                ],
            },
        )
    )


@dataclass(kw_only=True)
class SensorsCfg:
    """Contacts of the gripper and its fingers with the ground, in the last four physics steps."""

    ee_ground_collision: ContactSensorCfg = default(
        ContactSensorCfg(
            primary=ContactMatch(mode="subtree", pattern="link_6", entity="robot"),
            secondary=ContactMatch(mode="body", pattern="world"),
            reduce="none",
            num_slots=1,
            history_length=4,
        )
    )


@dataclass(kw_only=True)
class YamLiftCubeEnvCfg(ManagerEnvCfg):
    """Lift a cube to places in the air for 20 s at 50 Hz."""

    decimation: int = 4
    episode_length_s: float = 20.0
    sim: SimulationCfg = default(simulation())
    scene: SceneCfg = default(scene(cube=cube()))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg | None = field(default_factory=CurriculumCfg)
    sensors: SensorsCfg = field(default_factory=SensorsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(func=lift_terms.is_at_goal, params=COMMAND)
    )


@dataclass(kw_only=True)
class YamLiftCubePlayEnvCfg(YamLiftCubeEnvCfg):
    """Few environments, no noise, no curriculum, and another place every 4 s."""

    scene: SceneCfg = default(scene(50, cube=cube()))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )
    commands: CommandsCfg = default(CommandsCfg(lift_height=_lift((4.0, 4.0))))
    curriculum: CurriculumCfg | None = None
