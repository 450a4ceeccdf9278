"""Isaac-Humanoid-v0. The numbers are those of Isaac Lab 2.3.2 (manager-based Humanoid).

It is the Ant's task with another body and other weights; everything else is the Ant's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import ObservationTermCfg, RewardTermCfg, TerminationTermCfg
from envlab.envs.terms import observation, reward, termination
from envlab_tasks.classic.ant import ant_env_cfg as ant
from envlab_tasks.classic.locomotion import terms

GEARS = {
    "lower_waist:.": 67.5,
    ".*_upper_arm:.": 67.5,
    "pelvis": 67.5,
    ".*_lower_arm": 45.0,
    ".*_thigh:0": 45.0,
    ".*_thigh:1": 135.0,
    ".*_thigh:2": 45.0,
    ".*_shin": 90.0,
    ".*_foot:.": 22.5,
}
"""Motor strength by joint, in N m."""


@dataclass(kw_only=True)
class ActionsCfg(ant.ActionsCfg):
    """21 actions: the torque of each joint, as a share of its motor's strength."""

    joint_effort: mdp.JointEffortActionCfg = default(
        mdp.JointEffortActionCfg(joint_names=[".*"], scale=dict(GEARS))
    )


@dataclass(kw_only=True)
class PolicyCfg(ant.PolicyCfg):
    """87 values."""

    base_ang_vel: ObservationTermCfg = default(observation(mdp.base_ang_vel, scale=0.25))
    joint_vel_rel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, scale=0.1))
    feet_body_forces: ObservationTermCfg = default(
        observation(
            mdp.sensor,
            asset_cfg=SceneEntityCfg("robot", sensor_names=[".*_foot_(force|torque)"]),
            scale=-0.01,
        )
    )


@dataclass(kw_only=True)
class ObservationsCfg(ant.ObservationsCfg):
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class RewardsCfg(ant.RewardsCfg):
    """Run towards the target, upright and facing it, at little effort. Weights are per second."""

    alive: RewardTermCfg = default(reward(mdp.is_alive, 2.0))
    action_l2: RewardTermCfg = default(reward(mdp.action_l2, -0.01))
    energy: RewardTermCfg = default(reward(terms.power_consumption, -0.005, gear_ratio=dict(GEARS)))
    joint_pos_limits: RewardTermCfg = default(
        reward(terms.joint_pos_limits_penalty_ratio, -0.25, threshold=0.98, gear_ratio=dict(GEARS))
    )


@dataclass(kw_only=True)
class TerminationsCfg(ant.TerminationsCfg):
    """The humanoid falls, or the time is up."""

    torso_height: TerminationTermCfg = default(
        termination(mdp.root_height_below_minimum, minimum_height=0.8)
    )


@dataclass(kw_only=True)
class HumanoidEnvCfg(ant.AntEnvCfg):
    """Run for 16 seconds at 60 Hz."""

    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0, data_fields=("sensordata",)))
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/humanoid.xml"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
