"""Isaac-Open-Drawer-Franka-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- ``align_ee_handle`` compares the hand with the drawer's own axes, and is 1 for a perfect grasp.
  Isaac Lab compares the hand with the handle's frame, turned by (0.5, 0.5, -0.5, -0.5) to align
  with the hand, and gives 0 in the same pose, against the formula's evident intent (IsaacLab#6323).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import (
    ActionTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, at_startup, observation, reward, termination
from envlab_tasks.manipulation import franka
from envlab_tasks.manipulation.open_drawer import open_drawer_terms as terms


def drawer() -> SceneEntityCfg:
    """Select the joint of the drawer to open."""
    return SceneEntityCfg("cabinet", joint_names="drawer_top_joint")


@dataclass(kw_only=True)
class ActionsCfg:
    """Targets of the arm, and opening of the fingers."""

    arm_action: ActionTermCfg = default(franka.joint_positions(scale=1.0))
    gripper_action: ActionTermCfg = field(default_factory=franka.gripper)


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Joint positions and velocities (9 each), the drawer's, the vector to it, last action."""

    enable_corruption: bool = True
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))
    cabinet_joint_pos: ObservationTermCfg = default(
        observation(mdp.joint_pos_rel, asset_cfg=drawer())
    )
    cabinet_joint_vel: ObservationTermCfg = default(
        observation(mdp.joint_vel_rel, asset_cfg=drawer())
    )
    rel_ee_drawer_distance: ObservationTermCfg = default(observation(terms.rel_ee_drawer_distance))
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Frictions differ between environments; the arm starts near its home pose."""

    robot_physics_material: EventTermCfg = default(
        at_startup(mdp.randomize_rigid_body_material, friction_range=(0.8, 1.25))
    )
    cabinet_physics_material: EventTermCfg = default(
        at_startup(
            mdp.randomize_rigid_body_material,
            friction_range=(1.0, 1.5),
            asset_cfg=SceneEntityCfg("cabinet", geom_names="handle.*"),
        )
    )
    reset_robot_joints: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(-0.1, 0.1), velocity_range=(0.0, 0.0))
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Go to the handle, grasp it, pull, and move calmly. Weights are per second."""

    approach_ee_handle: RewardTermCfg = default(
        reward(terms.approach_ee_handle, 2.0, threshold=0.2)
    )
    align_ee_handle: RewardTermCfg = default(reward(terms.align_ee_handle, 0.5))
    approach_gripper_handle: RewardTermCfg = default(
        reward(terms.approach_gripper_handle, 5.0, offset=0.04)
    )
    align_grasp_around_handle: RewardTermCfg = default(
        reward(terms.align_grasp_around_handle, 0.125)
    )
    grasp_handle: RewardTermCfg = default(
        reward(
            terms.grasp_handle,
            0.5,
            threshold=0.03,
            open_joint_pos=0.04,
            asset_cfg=SceneEntityCfg("robot", joint_names=franka.FINGERS),
        )
    )
    open_drawer_bonus: RewardTermCfg = default(
        reward(terms.open_drawer_bonus, 7.5, asset_cfg=drawer())
    )
    multi_stage_open_drawer: RewardTermCfg = default(
        reward(terms.multi_stage_open_drawer, 1.0, asset_cfg=drawer())
    )
    action_rate_l2: RewardTermCfg = default(reward(mdp.action_rate_l2, -1e-2))
    joint_vel: RewardTermCfg = default(reward(mdp.joint_vel_l2, -1e-4))


@dataclass(kw_only=True)
class TerminationsCfg:
    """Only the time limit."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))


@dataclass(kw_only=True)
class FrankaCabinetEnvCfg(ManagerEnvCfg):
    """Open a drawer within 8 seconds, at 60 Hz."""

    decimation: int = 1
    episode_length_s: float = 8.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 60.0, data_fields=("xquat", "site_xpos"), model_fields=("geom_friction",)
        )
    )
    scene: SceneCfg = default(franka.scene("franka_cabinet"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(  # as in Isaac Lab 3
            func=terms.drawer_is_open, params={"threshold": 0.3, "asset_cfg": drawer()}
        )
    )


@dataclass(kw_only=True)
class FrankaCabinetPlayEnvCfg(FrankaCabinetEnvCfg):
    """The same for 50 environments."""

    scene: SceneCfg = default(franka.scene("franka_cabinet", 50))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )
