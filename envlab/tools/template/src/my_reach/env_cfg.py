"""The task as a configuration of terms; 'envlab terms' lists all available ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from envlab.envs import (
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, at_startup, observation, reward, termination

FINGERTIP = SceneEntityCfg(site_names="fingertip")


# Terms of your own: short functions over all environments. A name in a SceneEntityCfg arrives as
# indices: asset_cfg.site_ids are the rows of the sites in env.sim.data.site_xpos.
def fingertip(env, asset_cfg) -> torch.Tensor:
    """Return the fingertip's position in the plane, in m, ``(num_envs, 2)``."""
    return mdp.site_positions(env, asset_cfg)[:, 0, :2]


def distance(env, command_name: str, asset_cfg) -> torch.Tensor:
    """Return the fingertip's distance from its goal, in m, ``(num_envs,)``."""
    error = fingertip(env, asset_cfg) - env.command_manager.get_command(command_name)
    return torch.linalg.vector_norm(error, dim=1)


@dataclass(kw_only=True)
class ActionsCfg:
    """Actions of the agent."""

    joints: mdp.JointPositionActionCfg = default(
        mdp.JointPositionActionCfg(joint_names=["shoulder", "elbow"])
    )
    """Changes of the targets of joints, which have actuators, from the default pose, in rad."""


@dataclass(kw_only=True)
class CommandsCfg:
    """Goals that change during an episode, and that the agent observes."""

    goal: mdp.UniformCommandCfg = default(
        mdp.UniformCommandCfg(
            resampling_time_range=(2.0, 2.0),
            ranges=[(-0.6, 0.6), (-0.6, 0.6)],
            marker_height_m=0.1,
        )
    )
    """A point in the plane, in m."""


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Observations of the agent, in this order."""

    enable_corruption: bool = True  # else the noise below is not applied
    pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, 0.01))
    vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))
    tip: ObservationTermCfg = default(observation(fingertip, asset_cfg=FINGERTIP))
    goal: ObservationTermCfg = default(observation(mdp.generated_commands, command_name="goal"))


@dataclass(kw_only=True)
class ObservationsCfg:
    """Groups of observations; a group ``critic`` would be only for the critic."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Changes at the start, at resets, or now and then."""

    mass: EventTermCfg = default(  # needs the two model fields declared below
        at_startup(
            mdp.randomize_rigid_body_mass, mass_distribution_params=(0.8, 1.2), operation="scale"
        )
    )
    pose: EventTermCfg = default(
        at_reset(mdp.reset_joints_by_offset, position_range=(-1.0, 1.0), velocity_range=(0.0, 0.0))
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """The reward: the sum of the terms, each times its weight and the length of a step."""

    reach: RewardTermCfg = default(reward(distance, -1.0, command_name="goal", asset_cfg=FINGERTIP))
    smooth: RewardTermCfg = default(reward(mdp.action_rate_l2, -0.005))


@dataclass(kw_only=True)
class TerminationsCfg:
    """When an episode ends."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))


@dataclass(kw_only=True)
class ReachEnvCfg(ManagerEnvCfg):
    """The task."""

    decimation: int = 4
    episode_length_s: float = 6.0
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=0.005,
            data_fields=("site_xpos",),  # read by terms, in addition to qpos and qvel
        )
    )
    scene: SceneCfg = default(SceneCfg(num_envs=512, model="my_reach:arm.xml"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    commands: CommandsCfg = field(default_factory=CommandsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
