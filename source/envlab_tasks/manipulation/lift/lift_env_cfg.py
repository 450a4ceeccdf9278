"""Isaac-Lift-Cube-Franka-v0. The numbers are those of Isaac Lab 2.3.2."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import (
    EntityCfg,
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

LIFTED_M = 0.04
"""Height of the cube's centre from which it counts as lifted; on the table it is 0.024 m, and
episodes begin with a fall from 0.055 m, which counts too."""


@dataclass(kw_only=True)
class CommandsCfg:
    """Goal position of the cube; its orientation does not matter."""

    object_pose: mdp.UniformPoseCommandCfg = default(
        mdp.UniformPoseCommandCfg(
            body_name="panda_hand",
            resampling_time_range=(5.0, 5.0),
            ranges=mdp.PoseRangesCfg(pos_x=(0.4, 0.6), pos_y=(-0.25, 0.25), pos_z=(0.25, 0.5)),
        )
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Targets of the arm, and opening of the fingers."""

    arm_action: ActionTermCfg = default(franka.joint_positions(scale=0.5))
    gripper_action: ActionTermCfg = field(default_factory=franka.gripper)


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Joint positions and velocities (9 each), the cube's place, the goal's pose, last action."""

    enable_corruption: bool = True
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))
    object_position: ObservationTermCfg = default(
        observation(mdp.object_position_in_robot_root_frame)
    )
    target_object_position: ObservationTermCfg = default(
        observation(mdp.generated_commands, command_name="object_pose")
    )
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """The arm starts at home, the cube somewhere on the table before it."""

    reset_object_position: EventTermCfg = default(
        at_reset(
            mdp.reset_root_state_uniform,
            pose_range={"x": (-0.1, 0.1), "y": (-0.25, 0.25), "z": (0.0, 0.0)},
            velocity_range={},
            asset_cfg=SceneEntityCfg("object"),
        )
    )


def _goal_tracking(weight: float, std: float) -> RewardTermCfg:
    return reward(
        mdp.object_goal_distance,
        weight,
        std=std,
        minimal_height=LIFTED_M,
        command_name="object_pose",
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Reach the cube, lift it, bring it to its goal, and move calmly. Weights are per second."""

    reaching_object: RewardTermCfg = default(reward(mdp.object_ee_distance, 1.0, std=0.1))
    lifting_object: RewardTermCfg = default(
        reward(mdp.object_is_lifted, 15.0, minimal_height=LIFTED_M)
    )
    object_goal_tracking: RewardTermCfg = default(_goal_tracking(16.0, 0.3))
    object_goal_tracking_fine_grained: RewardTermCfg = default(_goal_tracking(5.0, 0.05))
    action_rate: RewardTermCfg = default(reward(mdp.action_rate_l2, -1e-4))
    joint_vel: RewardTermCfg = default(reward(mdp.joint_vel_l2, -1e-4))


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time limit, and a cube that fell off the table."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    object_dropping: TerminationTermCfg = default(
        termination(
            mdp.root_height_below_minimum, minimum_height=-0.05, asset_cfg=SceneEntityCfg("object")
        )
    )


@dataclass(kw_only=True)
class CurriculumCfg:
    """Calm counts for more after 10000 steps."""

    action_rate: CurriculumTermCfg = default(
        CurriculumTermCfg(
            func=mdp.modify_reward_weight,
            params={"term_name": "action_rate", "weight": -1e-1, "num_steps": 10000},
        )
    )
    joint_vel: CurriculumTermCfg = default(
        CurriculumTermCfg(
            func=mdp.modify_reward_weight,
            params={"term_name": "joint_vel", "weight": -1e-1, "num_steps": 10000},
        )
    )


CUBE = EntityCfg(model="envlab_assets:robots/lift_cube.xml")


def _simulation(data_fields: tuple[str, ...]) -> SimulationCfg:
    # 57 rows were needed under random actions, and mujoco_warp's own guess is 64.
    return SimulationCfg(dt=0.01, data_fields=data_fields, num_constraints_max=128)


@dataclass(kw_only=True)
class FrankaCubeLiftEnvCfg(ManagerEnvCfg):
    """Lift a cube to a place in the air within 5 seconds, at 50 Hz."""

    decimation: int = 2
    episode_length_s: float = 5.0
    sim: SimulationCfg = default(_simulation((*franka.HAND_FIELDS, "site_xpos")))
    scene: SceneCfg = default(franka.on_a_table("franka_lift", franka.panda(), object=CUBE))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    curriculum: CurriculumCfg = field(default_factory=CurriculumCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(  # as in Isaac Lab 3
            func=mdp.object_is_at_goal,
            params={
                "threshold": 0.05,
                "minimal_height": LIFTED_M,
                "command_name": "object_pose",
            },
        )
    )


@dataclass(kw_only=True)
class FrankaCubeLiftIkAbsEnvCfg(FrankaCubeLiftEnvCfg):
    """The same with a stiffer arm, by poses of the grasp point."""

    sim: SimulationCfg = default(_simulation((*franka.IK_FIELDS, "site_xpos")))
    scene: SceneCfg = default(
        franka.on_a_table("franka_lift", franka.stiff(franka.panda()), object=CUBE)
    )
    actions: ActionsCfg = default(ActionsCfg(arm_action=franka.hand_pose("absolute")))


@dataclass(kw_only=True)
class FrankaCubeLiftIkRelEnvCfg(FrankaCubeLiftIkAbsEnvCfg):
    """The same by displacements of the grasp point."""

    actions: ActionsCfg = default(ActionsCfg(arm_action=franka.hand_pose("relative")))


@dataclass(kw_only=True)
class FrankaCubeLiftPlayEnvCfg(FrankaCubeLiftEnvCfg):
    """Joint positions, for 50 environments."""

    scene: SceneCfg = default(franka.on_a_table("franka_lift", franka.panda(), 50, object=CUBE))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )
