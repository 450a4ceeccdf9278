"""The common part of get-up tasks: MuJoCo Playground's Go1Getup, with its numbers.

Differs from MuJoCo Playground:

- Falls are simulated once, before the first episode, and each episode begins with one of 512
  states, turned about the vertical. In Playground each reset simulates a fall, of which Brax's
  wrapper keeps one for each environment.
- Accelerations of joints are changes of velocity in the last physics step; Playground takes
  MuJoCo's ``qacc``.
- The critic sees each quantity once, without noise; Playground's also sees the noisy observations,
  and joint angles without the default angles subtracted.
- Contacts are this project's, and a Go1 does not collide with itself. Motors have the armature of
  their rotors (Playground: 0.005 kg m^2), and knees the dry friction of the other joints
  (Playground: 1 N m).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, default, mdp
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SuccessTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab_tasks.locomotion.getup import terms
from envlab_tasks.locomotion.velocity.mjlab_env_cfg import sensors


def site(name: str) -> SceneEntityCfg:
    """Select a site of the robot."""
    return SceneEntityCfg("robot", site_names=name)


def fall(drop_height: float) -> EventTermCfg:
    """Return a start in which the robot stands, or lies after a fall from a height in m."""
    return at_reset(
        mdp.reset_to_fallen_state,
        drop_height=drop_height,
        drop_prob=0.6,
        max_velocity=0.5,
        settle_time_s=0.5,
    )


@dataclass(kw_only=True)
class ActionsCfg:
    """Target positions relative to current joint positions, for more initial exploration."""

    joint_pos: mdp.RelativeJointPositionActionCfg = default(
        mdp.RelativeJointPositionActionCfg(joint_names=[".*"], scale=0.5)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Measurements of a robot that does not know its height, with noise, and its last action."""

    enable_corruption: bool = True
    base_ang_vel: ObservationTermCfg = default(
        observation(mdp.sensor, 0.2, asset_cfg=sensors("imu_ang_vel"))
    )
    projected_gravity: ObservationTermCfg = default(observation(mdp.projected_gravity, 0.05))
    joint_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.03))
    joint_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, 1.5))
    actions: ObservationTermCfg = default(observation(mdp.last_action))


@dataclass(kw_only=True)
class CriticCfg(PolicyCfg):
    """The same without noise, velocities in the world, torques and the torso's height."""

    enable_corruption: bool = False
    imu_lin_acc: ObservationTermCfg = default(
        observation(mdp.sensor, asset_cfg=sensors("imu_lin_acc"))
    )
    base_lin_vel: ObservationTermCfg = default(
        observation(mdp.sensor, asset_cfg=sensors("imu_lin_vel"))
    )
    ang_vel_w: ObservationTermCfg = default(observation(mdp.root_ang_vel_w))
    actuator_force: ObservationTermCfg = default(observation(mdp.actuator_force))
    torso_height: ObservationTermCfg = default(
        observation(terms.site_height, asset_cfg=site("imu"))
    )


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Three robots of five lie after a fall, the others stand."""

    reset_base: EventTermCfg | None = default(fall(0.5))


@dataclass(kw_only=True)
class RewardsCfg:
    """Be upright and high; then also in the default pose and with small actions."""

    orientation: RewardTermCfg | None = default(reward(terms.orientation, 1.0))
    torso_height: RewardTermCfg | None = None
    posture: RewardTermCfg | None = default(reward(terms.posture, 1.0))
    stand_still: RewardTermCfg | None = None
    action_rate: RewardTermCfg | None = default(reward(terms.action_rate, -0.001))
    dof_pos_limits: RewardTermCfg | None = default(
        reward(mdp.joint_pos_limits, -0.1, soft_limit_factor=0.95)
    )
    torques: RewardTermCfg | None = default(reward(terms.torques, -1e-5))
    dof_acc: RewardTermCfg | None = default(reward(mdp.joint_acc_l2, -2.5e-7))
    dof_vel: RewardTermCfg | None = default(reward(terms.joint_speed, -0.1))


@dataclass(kw_only=True)
class TerminationsCfg:
    """The time is up."""

    time_out: TerminationTermCfg | None = default(termination(mdp.time_out, time_out=True))


@dataclass(kw_only=True)
class GetupEnvCfg(ManagerEnvCfg):
    """Get up within 6 s, at 50 Hz. A robot's task sets its torso's site and target height."""

    decimation: int = 5
    episode_length_s: float = 6.0
    scene: SceneCfg
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.004,
            data_fields=("sensordata", "site_xpos", "actuator_force"),
            substep_fields=("qvel",),
            num_contacts_max=60,
            num_constraints_max=250,
        )
    )
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
    success: SuccessTermCfg | None = None
