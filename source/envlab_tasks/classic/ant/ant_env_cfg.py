"""Isaac-Ant-v0. The numbers are those of Isaac Lab 2.3.2 (manager-based Ant).

Differs from Isaac Lab 2.3.2:

- Ant's rl_games agent trains in full precision; Isaac Lab's, in mixed precision.
- MuJoCo's force and torque sensors measure the feet, with the sign of Isaac Lab's
  incoming joint wrenches.
- The penalty for joints near their limits is at most 1 for each. MuJoCo's limits are soft, so it
  would otherwise reach 10.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab_tasks.classic.locomotion import terms

TARGET = (1000.0, 0.0, 0.0)
"""The ant's target, in m: too far away to be reached."""
GEARS = {".*": 15.0}
"""Motor strength, in N m; only the ratios between joints count."""


@dataclass(kw_only=True)
class ActionsCfg:
    """Eight actions: the torque of each joint, 7.5 N m per unit."""

    joint_effort: mdp.JointEffortActionCfg = default(
        mdp.JointEffortActionCfg(joint_names=[".*"], scale=7.5)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """60 values."""

    base_height: ObservationTermCfg = default(observation(mdp.base_pos_z))
    base_lin_vel: ObservationTermCfg = default(observation(mdp.base_lin_vel))
    base_ang_vel: ObservationTermCfg = default(observation(mdp.base_ang_vel))
    base_yaw_roll: ObservationTermCfg = default(observation(terms.base_yaw_roll))
    base_angle_to_target: ObservationTermCfg = default(
        observation(terms.base_angle_to_target, target_pos=TARGET)
    )
    base_up_proj: ObservationTermCfg = default(observation(terms.base_up_proj))
    base_heading_proj: ObservationTermCfg = default(
        observation(terms.base_heading_proj, target_pos=TARGET)
    )
    joint_pos_norm: ObservationTermCfg = default(observation(mdp.joint_pos_limit_normalized))
    joint_vel_rel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, scale=0.2))
    feet_body_forces: ObservationTermCfg = default(
        observation(
            mdp.sensor,
            asset_cfg=SceneEntityCfg("robot", sensor_names=[".*_foot_(force|torque)"]),
            scale=-0.1,
        )
    )
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Every episode starts at the origin, with joints a little off."""

    reset_base: EventTermCfg = default(
        at_reset(mdp.reset_root_state_uniform, pose_range={}, velocity_range={})
    )
    reset_robot_joints: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(-0.2, 0.2), velocity_range=(-0.1, 0.1))
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Run towards the target, upright and facing it, at little effort. Weights are per second."""

    progress: RewardTermCfg = default(reward(terms.progress_reward, 1.0, target_pos=TARGET))
    alive: RewardTermCfg = default(reward(mdp.is_alive, 0.5))
    upright: RewardTermCfg = default(reward(terms.upright_posture_bonus, 0.1, threshold=0.93))
    move_to_target: RewardTermCfg = default(
        reward(terms.move_to_target_bonus, 0.5, threshold=0.8, target_pos=TARGET)
    )
    action_l2: RewardTermCfg = default(reward(mdp.action_l2, -0.005))
    energy: RewardTermCfg = default(reward(terms.power_consumption, -0.05, gear_ratio=dict(GEARS)))
    joint_pos_limits: RewardTermCfg = default(
        reward(terms.joint_pos_limits_penalty_ratio, -0.1, threshold=0.99, gear_ratio=dict(GEARS))
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """The torso sinks to the ground, or the time is up."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    torso_height: TerminationTermCfg = default(
        termination(mdp.root_height_below_minimum, minimum_height=0.31)
    )


@dataclass(kw_only=True)
class AntEnvCfg(ManagerEnvCfg):
    """Run for 16 seconds at 60 Hz."""

    decimation: int = 2
    episode_length_s: float = 16.0
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0, data_fields=("sensordata",)))
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/ant.xml"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
