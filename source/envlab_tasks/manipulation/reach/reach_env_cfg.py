"""Isaac-Reach-Franka-v0. The numbers are those of Isaac Lab 2.3.2."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from envlab.envs import (
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import (
    ActionTermCfg,
    CurriculumTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab_tasks.manipulation import franka


def hand() -> SceneEntityCfg:
    """Select the body that must reach the goal."""
    return SceneEntityCfg("robot", body_names="panda_hand")


@dataclass(kw_only=True)
class CommandsCfg:
    """A pose above the table in front of the robot, with the hand pointing down."""

    ee_pose: mdp.UniformPoseCommandCfg = default(
        mdp.UniformPoseCommandCfg(
            body_name="panda_hand",
            resampling_time_range=(4.0, 4.0),
            ranges=mdp.PoseRangesCfg(
                pos_x=(0.35, 0.65),
                pos_y=(-0.2, 0.2),
                pos_z=(0.15, 0.5),
                pitch=(math.pi, math.pi),
                yaw=(-3.14, 3.14),
            ),
        )
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Targets of the arm; the fingers stay closed."""

    arm_action: ActionTermCfg = default(franka.joint_positions(scale=0.5))


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Joint positions and velocities (9 each), the goal (position, w, x, y, z), last action."""

    enable_corruption: bool = True
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 0.01))
    pose_command: ObservationTermCfg = default(
        observation(mdp.generated_commands, command_name="ee_pose")
    )
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Every episode starts in another pose."""

    reset_robot_joints: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_scale, position_range=(0.5, 1.5), velocity_range=(0.0, 0.0))
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Be at the goal, turned as it is, and move calmly. Weights are per second."""

    end_effector_position_tracking: RewardTermCfg = default(
        reward(mdp.position_command_error, -0.2, asset_cfg=hand(), command_name="ee_pose")
    )
    end_effector_position_tracking_fine_grained: RewardTermCfg = default(
        reward(
            mdp.position_command_error_tanh, 0.1, asset_cfg=hand(), std=0.1, command_name="ee_pose"
        )
    )
    end_effector_orientation_tracking: RewardTermCfg = default(
        reward(mdp.orientation_command_error, -0.1, asset_cfg=hand(), command_name="ee_pose")
    )
    action_rate: RewardTermCfg = default(reward(mdp.action_rate_l2, -0.0001))
    joint_vel: RewardTermCfg = default(reward(mdp.joint_vel_l2, -0.0001))


@dataclass(kw_only=True)
class TerminationsCfg:
    """Only the time limit."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))


@dataclass(kw_only=True)
class CurriculumCfg:
    """Calm counts for more after 4500 steps."""

    action_rate: CurriculumTermCfg = default(
        CurriculumTermCfg(
            func=mdp.modify_reward_weight,
            params={"term_name": "action_rate", "weight": -0.005, "num_steps": 4500},
        )
    )
    joint_vel: CurriculumTermCfg = default(
        CurriculumTermCfg(
            func=mdp.modify_reward_weight,
            params={"term_name": "joint_vel", "weight": -0.001, "num_steps": 4500},
        )
    )


@dataclass(kw_only=True)
class FrankaReachEnvCfg(ManagerEnvCfg):
    """Bring the hand to a pose, and to another every 4 seconds, at 30 Hz."""

    decimation: int = 2
    episode_length_s: float = 12.0
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 60.0, data_fields=("xpos", "xquat")))
    scene: SceneCfg = default(franka.scene("franka_reach"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg = field(default_factory=CurriculumCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(  # as in Isaac Lab 3
            func=mdp.position_is_reached,
            params={"threshold": 0.05, "command_name": "ee_pose", "asset_cfg": hand()},
        )
    )


@dataclass(kw_only=True)
class FrankaReachIkAbsEnvCfg(FrankaReachEnvCfg):
    """The same with a stiffer arm, by poses of the grasp point."""

    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 60.0, data_fields=franka.IK_FIELDS))
    scene: SceneCfg = default(franka.stiff_scene("franka_reach"))
    actions: ActionsCfg = default(ActionsCfg(arm_action=franka.hand_pose("absolute")))


@dataclass(kw_only=True)
class FrankaReachIkRelEnvCfg(FrankaReachIkAbsEnvCfg):
    """The same by displacements of the grasp point."""

    actions: ActionsCfg = default(ActionsCfg(arm_action=franka.hand_pose("relative")))


def calm_observations() -> ObservationsCfg:
    """Return the observations without noise."""
    return ObservationsCfg(policy=PolicyCfg(enable_corruption=False))


@dataclass(kw_only=True)
class FrankaReachPlayEnvCfg(FrankaReachEnvCfg):
    """Joint positions, for 50 environments, without noise."""

    scene: SceneCfg = default(franka.scene("franka_reach", 50))
    observations: ObservationsCfg = field(default_factory=calm_observations)


@dataclass(kw_only=True)
class FrankaReachIkAbsPlayEnvCfg(FrankaReachIkAbsEnvCfg):
    """Poses, for 50 environments, without noise."""

    scene: SceneCfg = default(franka.stiff_scene("franka_reach", 50))
    observations: ObservationsCfg = field(default_factory=calm_observations)


@dataclass(kw_only=True)
class FrankaReachIkRelPlayEnvCfg(FrankaReachIkRelEnvCfg):
    """Displacements, for 50 environments, without noise."""

    scene: SceneCfg = default(franka.stiff_scene("franka_reach", 50))
    observations: ObservationsCfg = field(default_factory=calm_observations)
