"""Environment features of legged_gym that Isaac Lab's managers lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs import ManagerEnv, SceneEntityCfg, VectorEnv, mdp
from envlab.envs.entities import SceneEntity, columns
from envlab.envs.masks import clear
from envlab.envs.mdp.root import origin_velocity
from envlab.envs.mdp.velocity_command import UniformVelocityCommand
from envlab.envs.mirror import mirrored
from envlab.envs.random import RandomStream

_ROBOT: Any = SceneEntityCfg("robot")


class LeggedGymEnv(ManagerEnv):
    """An environment whose rewards are never negative, so that no robot learns to fall early.

    Attributes:
        start_qvel: Velocities that the control step began with, ``(num_envs, nv)``.
    """

    start_qvel: torch.Tensor

    def _apply_actions(self, actions: torch.Tensor) -> None:
        self.start_qvel = self.sim.data.qvel.clone()
        super()._apply_actions(actions)

    def _get_rewards(self) -> torch.Tensor:
        return super()._get_rewards().clamp(min=0.0)


def dof_acc(env: LeggedGymEnv, asset_cfg: SceneEntity = _ROBOT) -> torch.Tensor:
    """Return the joints' squared changes of velocity over a control step per second, summed.

    That is ``_reward_dof_acc`` of legged_gym, in rad^2/s^4, ``(num_envs,)``.
    """
    change = columns(env.sim.data.qvel - env.start_qvel, asset_cfg.qvel_ids)
    return (change / env.step_dt).square().sum(dim=1)


def push_robots(
    env: ManagerEnv,
    mask: torch.Tensor,
    stream: RandomStream,
    max_push_vel_xy: float,
    asset_cfg: SceneEntity = _ROBOT,
) -> None:
    """Set the horizontal velocity of the root's centre of mass to a uniform draw.

    That is ``_push_robots`` of legged_gym; Isaac Lab adds the draw to the velocity.

    Args:
        env: The environment.
        mask: Environments to push, bool ``(num_envs,)``.
        stream: The term's random stream.
        max_push_vel_xy: Bound of each component in the world frame, in m/s.
        asset_cfg: The entity.
    """
    drawn = stream.uniform(-max_push_vel_xy, max_push_vel_xy, 2, mask)
    quat = env.sim.data.qpos[:, asset_cfg.root_quat]
    velocity = mdp.root_lin_vel_w(env, asset_cfg).clone()
    velocity[:, :2] = drawn
    qvel = env.sim.data.qvel.clone()
    turning = qvel[:, asset_cfg.root_ang_vel]
    qvel[:, asset_cfg.root_lin_vel] = origin_velocity(env, quat, velocity, turning, asset_cfg)
    env.sim.set_velocity(mask, qvel)


@mirrored(1.0, -1.0, -1.0)
def scaled_commands(env: ManagerEnv, command_name: str) -> torch.Tensor:
    """Return the command, ``(num_envs, 3)``, in legged_gym's scales."""
    command = mdp.generated_commands(env, command_name)
    return torch.cat((2.0 * command[:, :2], 0.25 * command[:, 2:]), dim=1)


@dataclass(kw_only=True)
class LeggedGymCommandCfg(mdp.UniformVelocityCommandCfg):
    """Commands; those slower than ``min_speed`` only turn on the spot."""

    rel_standing_envs: float = 0.0
    min_speed: float = 0.2
    """Horizontal speed up to which a draw counts as zero, in m/s; the turn is kept."""

    def build(self, env: VectorEnv) -> LeggedGymCommand:
        return LeggedGymCommand(self, env)


class LeggedGymCommand(UniformVelocityCommand):
    """The term of a :class:`LeggedGymCommandCfg`; ``_resample_commands`` of legged_gym."""

    cfg: LeggedGymCommandCfg

    def resample(self, mask: torch.Tensor, stream: RandomStream) -> None:
        super().resample(mask, stream)
        speed = torch.linalg.vector_norm(self.command[:, :2], dim=1)
        clear(self.command[:, :2], mask & (speed <= self.cfg.min_speed))
