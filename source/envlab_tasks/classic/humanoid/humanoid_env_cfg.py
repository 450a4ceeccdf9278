"""Isaac-Humanoid-v0. The numbers are those of Isaac Lab 2.3.2 (manager-based Humanoid).

It is the Ant's task with another body and other weights; what is not here is as there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import ObservationTermCfg, RewardTermCfg, TerminationTermCfg
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

    base_ang_vel: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.base_ang_vel, scale=0.25)
    )
    joint_vel_rel: ObservationTermCfg = default(
        ObservationTermCfg(func=mdp.joint_vel_rel, scale=0.1)
    )
    feet_body_forces: ObservationTermCfg = default(
        ObservationTermCfg(
            func=mdp.sensor,
            scale=0.01,
            params={"asset_cfg": SceneEntityCfg("robot", sensor_names=[".*_foot_(force|torque)"])},
        )
    )


@dataclass(kw_only=True)
class ObservationsCfg(ant.ObservationsCfg):
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class RewardsCfg(ant.RewardsCfg):
    """Run towards the target, upright and facing it, at little effort. Weights are per second."""

    alive: RewardTermCfg = default(RewardTermCfg(func=mdp.is_alive, weight=2.0))
    action_l2: RewardTermCfg = default(RewardTermCfg(func=mdp.action_l2, weight=-0.01))
    energy: RewardTermCfg = default(
        RewardTermCfg(
            func=terms.power_consumption, weight=-0.005, params={"gear_ratio": dict(GEARS)}
        )
    )
    joint_pos_limits: RewardTermCfg = default(
        RewardTermCfg(
            func=terms.joint_pos_limits_penalty_ratio,
            weight=-0.25,
            params={"threshold": 0.98, "gear_ratio": dict(GEARS)},
        )
    )


@dataclass(kw_only=True)
class TerminationsCfg(ant.TerminationsCfg):
    """The humanoid falls, or the time is up."""

    torso_height: TerminationTermCfg = default(
        TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": 0.8})
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
