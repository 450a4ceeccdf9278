"""Isaac-Reach-UR10-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- The UR10's joints have an armature of 0.1 kg m^2; Isaac Lab's configuration sets none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from envlab.envs import SceneCfg, SceneEntityCfg, default, mdp
from envlab.envs.managers import EventTermCfg, RewardTermCfg, SuccessTermCfg
from envlab.envs.terms import at_reset, reward
from envlab_tasks.manipulation.reach.reach_env_cfg import (
    ActionsCfg,
    CommandsCfg,
    EventsCfg,
    FrankaReachEnvCfg,
    RewardsCfg,
    to_play,
)

EE = "ee_link"
"""The body that must reach the goal; its x axis points away from the arm."""


def near_goal(func: Any, weight: float, **params: float) -> RewardTermCfg:
    """Return a term that compares the end of the arm with the goal."""
    asset = SceneEntityCfg("robot", body_names=EE)
    return reward(func, weight, asset_cfg=asset, command_name="ee_pose", **params)


@dataclass(kw_only=True)
class UR10CommandsCfg(CommandsCfg):
    """A pose above the table in front of the robot, with the end of the arm pointing down."""

    ee_pose: mdp.UniformPoseCommandCfg = default(
        mdp.UniformPoseCommandCfg(
            body_name=EE,
            resampling_time_range=(4.0, 4.0),
            ranges=mdp.PoseRangesCfg(
                pos_x=(0.35, 0.65),
                pos_y=(-0.2, 0.2),
                pos_z=(0.15, 0.5),
                pitch=(math.pi / 2.0, math.pi / 2.0),
                yaw=(-3.14, 3.14),
            ),
        )
    )


@dataclass(kw_only=True)
class UR10EventsCfg(EventsCfg):
    """Every episode starts in another pose."""

    reset_robot_joints: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_scale, position_range=(0.75, 1.25), velocity_range=(0.0, 0.0))
    )


@dataclass(kw_only=True)
class UR10RewardsCfg(RewardsCfg):
    """Be at the goal, turned as it is, and move calmly. Weights are per second."""

    end_effector_position_tracking: RewardTermCfg = default(
        near_goal(mdp.position_command_error, -0.2)
    )
    end_effector_position_tracking_fine_grained: RewardTermCfg = default(
        near_goal(mdp.position_command_error_tanh, 0.1, std=0.1)
    )
    end_effector_orientation_tracking: RewardTermCfg = default(
        near_goal(mdp.orientation_command_error, -0.1)
    )


@dataclass(kw_only=True)
class UR10ReachEnvCfg(FrankaReachEnvCfg):
    """Bring the end of the arm to a pose, and to another every 4 seconds, at 30 Hz."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/ur10_reach.xml"))
    actions: ActionsCfg = default(
        ActionsCfg(arm_action=mdp.JointPositionActionCfg(joint_names=".*", scale=0.5))
    )
    commands: UR10CommandsCfg = field(default_factory=UR10CommandsCfg)
    events: UR10EventsCfg = field(default_factory=UR10EventsCfg)
    rewards: UR10RewardsCfg = field(default_factory=UR10RewardsCfg)
    success: SuccessTermCfg | None = default(
        SuccessTermCfg(  # as in Isaac Lab 3 for the Panda
            func=mdp.position_is_reached,
            params={
                "threshold": 0.05,
                "command_name": "ee_pose",
                "asset_cfg": SceneEntityCfg("robot", body_names=EE),
            },
        )
    )


def play() -> FrankaReachEnvCfg:
    """Return Isaac-Reach-UR10-Play-v0."""
    return to_play(UR10ReachEnvCfg())
