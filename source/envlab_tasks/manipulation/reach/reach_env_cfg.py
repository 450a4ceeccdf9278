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
    joint_pos: ObservationTermCfg | None = default(observation(mdp.joint_pos_rel, 0.01))
    joint_vel: ObservationTermCfg | None = default(observation(mdp.joint_vel_rel, 0.01))
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


def ik_abs() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-IK-Abs-v0: a stiffer arm, by poses of the grasp point."""
    cfg = FrankaReachEnvCfg(scene=franka.stiff_scene("franka_reach"))
    cfg.sim.data_fields = franka.IK_FIELDS
    cfg.actions.arm_action = franka.hand_pose("absolute")
    return cfg


def ik_rel() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-IK-Rel-v0: the same by displacements of the grasp point."""
    cfg = ik_abs()
    cfg.actions.arm_action = franka.hand_pose("relative")
    return cfg


def osc() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-OSC-v0: motors by operational-space control, without gravity.

    Actions are a pose of the hand and six stiffnesses; joints are not observed.
    """
    action = franka.operational_space()
    cfg = FrankaReachEnvCfg(scene=franka.torque_scene("franka_reach"))
    cfg.sim.data_fields = tuple(dict.fromkeys((*cfg.sim.data_fields, *action.data_fields)))
    cfg.actions.arm_action = action
    cfg.observations.policy.joint_pos = cfg.observations.policy.joint_vel = None
    return cfg


def to_play(cfg: FrankaReachEnvCfg, num_envs: int = 50) -> FrankaReachEnvCfg:
    """Give a task few environments, without noise."""
    cfg.scene.num_envs = num_envs
    cfg.observations.policy.enable_corruption = False
    return cfg


def play() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-Play-v0."""
    return to_play(FrankaReachEnvCfg())


def ik_abs_play() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-IK-Abs-Play-v0."""
    return to_play(ik_abs())


def ik_rel_play() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-IK-Rel-Play-v0."""
    return to_play(ik_rel())


def osc_play() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-Franka-OSC-Play-v0."""
    return to_play(osc(), num_envs=16)
