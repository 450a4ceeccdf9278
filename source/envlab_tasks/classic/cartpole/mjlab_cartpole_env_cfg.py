"""Mjlab-Cartpole-Balance and Mjlab-Cartpole-Swingup. The numbers are mjlab 1.6.0's.

They are dm_control's cartpole (``suite/cartpole.py``): its smooth reward, 20 actions a second.

Differs from mjlab 1.6.0:

- A play variant ends an episode after 50 s; in mjlab, never.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs import (
    InitialStateCfg,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
    mdp,
)
from envlab.envs.entities import SceneEntity, columns
from envlab.envs.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from envlab.envs.terms import at_reset, observation, reward, termination

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

CART: Any = SceneEntityCfg("robot", joint_names=["slider"])
POLE: Any = SceneEntityCfg("robot", joint_names=["hinge_1"])
AT_MARGIN = 0.1
"""Tolerance at its margin, dm_control's default ``value_at_margin``."""


def pole_angle_cos_sin(env: ManagerEnv, asset_cfg: SceneEntity = POLE) -> torch.Tensor:
    """Return cosine and sine of the pole's angle, ``(num_envs, 2)``; 0 rad is upright."""
    angle = columns(env.sim.data.qpos, asset_cfg.qpos_ids)
    return torch.cat((torch.cos(angle), torch.sin(angle)), dim=1)


def smooth_reward(
    env: ManagerEnv, cart_cfg: SceneEntity = CART, hinge_cfg: SceneEntity = POLE
) -> torch.Tensor:
    """Return 1 for an upright pole, a cart in the middle, no control and no swing; product of four.

    It is dm_control's: margins are 2 m, a control of 1, and 5 rad/s, beyond which the factors are
    at least 0.5, 0.8 and 0.5. The upright factor falls to 0 for a hanging pole.
    """
    qpos, qvel = env.sim.data.qpos, env.sim.data.qvel
    upright = (torch.cos(columns(qpos, hinge_cfg.qpos_ids)) + 1.0) / 2.0
    centred = (1.0 + _gaussian(columns(qpos, cart_cfg.qpos_ids) / 2.0)) / 2.0
    # dm_control's quadratic tolerance: sqrt(1 - AT_MARGIN) of the margin costs its whole.
    small_control = (
        4.0 + (1.0 - (1.0 - AT_MARGIN) * env.action_manager.action.square()).clamp(min=0.0)
    ) / 5.0
    small_velocity = (1.0 + _gaussian(columns(qvel, hinge_cfg.qvel_ids) / 5.0)) / 2.0
    return (upright * centred * small_control * small_velocity).squeeze(1)


def _gaussian(share: torch.Tensor) -> torch.Tensor:
    """Return dm_control's gaussian tolerance of shares of a margin: 1 at 0, 0.1 at 1."""
    return torch.exp(math.log(AT_MARGIN) * share.square())


@dataclass(kw_only=True)
class ActionsCfg:
    """One action: the control of the cart's motor, 10 N per unit, at most 1."""

    effort: mdp.JointEffortActionCfg = default(mdp.JointEffortActionCfg(joint_names=["slider"]))


@dataclass(kw_only=True)
class PolicyCfg(ObservationGroupCfg):
    """Cart position (m), cosine and sine of the pole's angle, velocities (m/s, rad/s)."""

    enable_corruption: bool = True
    cart_pos: ObservationTermCfg = default(observation(mdp.joint_pos_rel, asset_cfg=CART))
    pole_angle: ObservationTermCfg = default(observation(pole_angle_cos_sin, asset_cfg=POLE))
    cart_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, asset_cfg=CART))
    pole_vel: ObservationTermCfg = default(observation(mdp.joint_vel_rel, asset_cfg=POLE))


@dataclass(kw_only=True)
class CriticCfg(PolicyCfg):
    """The same."""

    enable_corruption: bool = False


@dataclass(kw_only=True)
class ObservationsCfg:
    """The policy's group, and the critic's."""

    policy: PolicyCfg = field(default_factory=PolicyCfg)
    critic: CriticCfg = field(default_factory=CriticCfg)


def _reset(joint: SceneEntityCfg, offset: float) -> EventTermCfg:
    """Return the event that starts a joint within ``offset`` of its default, almost at rest."""
    return at_reset(
        mdp.reset_joints_by_offset,
        asset_cfg=joint,
        position_range=(-offset, offset),
        velocity_range=(-0.01, 0.01),
    )


@dataclass(kw_only=True)
class EventsCfg:
    """Episodes start up to 0.1 m off the middle, with the pole up to 2 degrees off its default."""

    reset_slider: EventTermCfg = default(_reset(CART, 0.1))
    reset_hinge: EventTermCfg = default(_reset(POLE, 0.034))


@dataclass(kw_only=True)
class RewardsCfg:
    """dm_control's smooth reward, per second."""

    smooth_reward: RewardTermCfg = default(
        reward(smooth_reward, 1.0, cart_cfg=CART, hinge_cfg=POLE)
    )


@dataclass(kw_only=True)
class TerminationsCfg:
    """Only the time limit."""

    time_out: TerminationTermCfg = default(termination(mdp.time_out, time_out=True))


def scene(pole_angle: float, num_envs: int = 4096) -> SceneCfg:
    """Return the scene with the pole's default angle, in rad."""
    return SceneCfg(
        num_envs=num_envs,
        model="envlab_assets:robots/cartpole_mjlab.xml",
        init_state=InitialStateCfg(joint_pos={"slider": 0.0, "hinge_1": pole_angle}),
    )


@dataclass(kw_only=True)
class CartpoleBalanceEnvCfg(ManagerEnvCfg):
    """Balance a pole for 50 s at 20 Hz."""

    decimation: int = 5
    episode_length_s: float = 50.0
    sim: SimulationCfg = default(SimulationCfg(dt=0.01))
    scene: SceneCfg = default(scene(0.0))
    observations: ObservationsCfg = field(default_factory=ObservationsCfg)
    actions: ActionsCfg = field(default_factory=ActionsCfg)
    events: EventsCfg = field(default_factory=EventsCfg)
    rewards: RewardsCfg = field(default_factory=RewardsCfg)
    terminations: TerminationsCfg = field(default_factory=TerminationsCfg)


@dataclass(kw_only=True)
class CartpoleSwingupEnvCfg(CartpoleBalanceEnvCfg):
    """Swing up a pole that hangs, and balance it."""

    scene: SceneCfg = default(scene(math.pi))
    events: EventsCfg = default(EventsCfg(reset_slider=_reset(CART, 0.0)))


@dataclass(kw_only=True)
class CartpoleBalancePlayEnvCfg(CartpoleBalanceEnvCfg):
    """Few environments."""

    scene: SceneCfg = default(scene(0.0, 50))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )


@dataclass(kw_only=True)
class CartpoleSwingupPlayEnvCfg(CartpoleSwingupEnvCfg):
    """Few environments."""

    scene: SceneCfg = default(scene(math.pi, 50))
    observations: ObservationsCfg = default(
        ObservationsCfg(policy=PolicyCfg(enable_corruption=False))
    )
