"""Isaac-Cartpole-v0. The numbers are those of Isaac Lab 2.3.2 (manager-based Cartpole).

Differs from Isaac Lab 2.3.2:

- A pole's positive angle leans towards the cart's positive direction, in Isaac Lab (by its USD
  file) to the other side: a policy from Isaac Lab needs both signs of the pole flipped.
- The agent that uses symmetry (``rsl_rl_with_symmetry_cfg_entry_point``) is missing.
"""

from __future__ import annotations

import math
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


def cart() -> SceneEntityCfg:
    """Select the joint between rail and cart."""
    return SceneEntityCfg("robot", joint_names=["slider_to_cart"])


def pole() -> SceneEntityCfg:
    """Select the joint between cart and pole."""
    return SceneEntityCfg("robot", joint_names=["cart_to_pole"])


@dataclass(kw_only=True)
class ActionsCfg:
    """One action: the force on the cart, 100 N per unit."""

    joint_effort: mdp.JointEffortActionCfg = default(
        mdp.JointEffortActionCfg(joint_names=["slider_to_cart"], scale=100.0)
    )


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Cart position (m), pole angle (rad), and their velocities."""

    joint_pos_rel: ObservationTermCfg = default(observation(mdp.joint_pos_rel))
    joint_vel_rel: ObservationTermCfg = default(observation(mdp.joint_vel_rel))


@dataclass(kw_only=True)
class ObservationsCfg:
    """One group."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)


@dataclass(kw_only=True)
class EventsCfg:
    """Every episode starts with the cart off centre and the pole tilted by up to 45 degrees."""

    reset_cart_position: EventTermCfg = default(
        at_reset(
            mdp.reset_joints_by_offset,
            asset_cfg=cart(),
            position_range=(-1.0, 1.0),
            velocity_range=(-0.5, 0.5),
        )
    )
    reset_pole_position: EventTermCfg = default(
        at_reset(
            mdp.reset_joints_by_offset,
            asset_cfg=pole(),
            position_range=(-0.25 * math.pi, 0.25 * math.pi),
            velocity_range=(-0.25 * math.pi, 0.25 * math.pi),
        )
    )


@dataclass(kw_only=True)
class RewardsCfg:
    """Stay alive, keep the pole up and everything slow. Weights are per second."""

    alive: RewardTermCfg = default(reward(mdp.is_alive, 1.0))
    terminating: RewardTermCfg = default(reward(mdp.is_terminated, -2.0))
    pole_pos: RewardTermCfg = default(
        reward(mdp.joint_pos_target_l2, -1.0, asset_cfg=pole(), target=0.0)
    )
    cart_vel: RewardTermCfg = default(reward(mdp.joint_vel_l1, -0.01, asset_cfg=cart()))
    pole_vel: RewardTermCfg = default(reward(mdp.joint_vel_l1, -0.005, asset_cfg=pole()))


@dataclass(kw_only=True)
class TerminationsCfg:
    """The cart leaves the rail, or the time is up. A fallen pole may be swung up again."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))
    cart_out_of_bounds: TerminationTermCfg = default(
        termination(mdp.joint_pos_out_of_manual_limit, asset_cfg=cart(), bounds=(-3.0, 3.0))
    )


@dataclass(kw_only=True)
class CartpoleEnvCfg(ManagerEnvCfg):
    """Balance a pole for 5 seconds at 60 Hz."""

    decimation: int = 2
    episode_length_s: float = 5.0
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0))
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/cartpole.xml"))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)
