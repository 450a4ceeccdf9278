"""Common part of the direct Ant and Humanoid. Formulas as in Isaac Lab 2.3.2 (direct locomotion).

Differs from Isaac Lab 2.3.2:

- Episodes start with joints up to 0.2 rad and 0.1 rad/s off, clamped to their limits, as in Isaac
  Lab 3 and in the manager-based tasks. In 2.3.2 all of them start in the same state
  (``env.initial_joint_pos_range=[0,0] env.initial_joint_vel_range=[0,0]``).
- The observed angle to the target is the angle in the horizontal plane. Isaac Lab computes it from
  the target's height in place of its y (Isaac Sim's ``compute_rot``), which ignores how far the
  robot has run in y: at most 0.1 rad, because the target is 1000 m away.
- The rl_games agents train in full precision; Isaac Lab's, in mixed precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envlab.envs import DirectEnv, DirectEnvCfg, DiscreteCfg, SceneEntityCfg
from envlab.envs.entities import joint_values, resolve_entity
from envlab.envs.math import euler_xyz_from_quat, matrix_from_quat, wrap_to_pi
from envlab.envs.mdp import base_lin_vel
from envlab.envs.mdp.events import joint_limits
from envlab_tasks.classic.locomotion.geometry import (
    facing,
    heading,
    progress,
    to_target,
    uprightness,
)


@dataclass(kw_only=True)
class LocomotionEnvCfg(DirectEnvCfg):
    """Run towards a far target for 15 seconds at 60 Hz."""

    decimation: int = 2
    episode_length_s: float = 15.0
    action_space: int | DiscreteCfg = 1
    target_pos: tuple[float, float, float] = (1000.0, 0.0, 0.0)
    """Target, in m: too far away to be reached."""
    action_scale: float = 1.0
    """Share of a joint's gear per unit of action."""
    joint_gears: dict[str, float]
    """Motor strength by joint name (regular expressions), in N m."""
    initial_joint_pos_range: tuple[float, float] = (-0.2, 0.2)
    """Bounds of the joints' first offsets, in rad."""
    initial_joint_vel_range: tuple[float, float] = (-0.1, 0.1)
    """Bounds of their first velocities, in rad/s."""
    heading_weight: float = 0.5
    """Reward per step of facing the target."""
    up_weight: float = 0.1
    """Reward per step of standing upright."""
    energy_cost_scale: float = 0.05
    """Cost per |action times scaled velocity|, summed over joints."""
    actions_cost_scale: float
    """Cost per squared action, summed over joints."""
    alive_reward_scale: float
    """Reward per step that does not end in a fall."""
    death_cost: float
    """Reward of a step that ends in a fall, in place of all others."""
    termination_height: float
    """Height of the torso that counts as a fall, in m."""
    dof_vel_scale: float
    """Factor of joint velocities in the observation."""
    angular_velocity_scale: float = 1.0
    """Factor of the torso's angular velocity in the observation."""


class LocomotionEnv(DirectEnv):
    """The task as one class; a robot is its configuration."""

    cfg: LocomotionEnvCfg

    def _setup(self) -> None:
        self._robot = resolve_entity(SceneEntityCfg("robot"), self.sim.model, self.device)
        gears = joint_values(self.cfg.joint_gears, self._robot.joint_names)
        self._efforts = self.cfg.action_scale * torch.tensor(gears, device=self.device)
        low, high = self._joint_limits = joint_limits(self, self._robot)
        self._joint_centre, self._joint_reach = 0.5 * (low + high), 0.5 * (high - low)
        self._last_actions = torch.zeros(self.num_envs, len(gears), device=self.device)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._last_actions.copy_(actions)

    def _apply_action(self) -> None:
        self.sim.ctrl[:, self._robot.actuator_ids] = self._last_actions * self._efforts

    def _get_observations(self) -> dict[str, torch.Tensor]:
        cfg, robot = self.cfg, self._robot
        qpos, qvel = self.sim.data.qpos, self.sim.data.qvel
        quat = qpos[:, robot.root_quat]
        roll, _, yaw = euler_xyz_from_quat(quat)
        way = to_target(qpos[:, robot.root_pos], cfg.target_pos)
        angle = wrap_to_pi(torch.atan2(way[:, 1], way[:, 0]) - yaw)
        parts = (
            qpos[:, robot.root_pos][:, 2:],
            base_lin_vel(self, robot),
            qvel[:, robot.root_ang_vel] * cfg.angular_velocity_scale,
            torch.stack((yaw, roll, angle, uprightness(quat), heading(quat, way)), dim=1),
            self._joint_share(qpos),
            qvel[:, robot.qvel_ids] * cfg.dof_vel_scale,
            self._last_actions,
        )
        return {"policy": torch.cat(parts, dim=1)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        height = self.sim.data.qpos[:, self._robot.root_pos][:, 2]
        self._failed = height < self.cfg.termination_height
        # Isaac Lab's direct tasks count the step to come, so that an episode has 899 steps of 900.
        return self._failed, self.episode_length_buf >= self.max_episode_length - 1

    def _get_rewards(self) -> torch.Tensor:
        cfg, robot, qpos = self.cfg, self._robot, self.sim.data.qpos
        quat, position = qpos[:, robot.root_quat], qpos[:, robot.root_pos]
        way = to_target(position, cfg.target_pos)
        distance = torch.linalg.vector_norm(way, dim=1)
        moved = progress(self.last_qpos[:, robot.root_pos], position, way, distance)
        joint_vel = self.sim.data.qvel[:, robot.qvel_ids] * cfg.dof_vel_scale
        cosine = (facing(matrix_from_quat(quat), way, distance) / 0.8).clamp(max=1.0)
        reward = (
            moved / self.physics_dt  # as in Isaac Lab, where the step's duration is expected
            + cfg.alive_reward_scale
            + cfg.up_weight * (uprightness(quat) > 0.93)
            + cfg.heading_weight * cosine
            - cfg.actions_cost_scale * self._last_actions.square().sum(dim=1)
            - cfg.energy_cost_scale * (self._last_actions * joint_vel).abs().sum(dim=1)
            - (self._joint_share(qpos) > 0.98).sum(dim=1)  # upper limits only, as in Isaac Lab
        )
        return torch.where(self._failed, cfg.death_cost, reward)

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        cfg, robot, num = self.cfg, self._robot, len(self._robot.joint_names)
        bounds = [cfg.initial_joint_pos_range] * num + [cfg.initial_joint_vel_range] * num
        drawn = self.random.stream("reset").ranges(bounds, mask)
        positions = self.default_qpos[:, robot.qpos_ids] + drawn[:, :num]
        self.reset_qpos[:, robot.qpos_ids] = positions.clamp(*self._joint_limits)
        self.reset_qvel[:, robot.qvel_ids] = drawn[:, num:]
        return {}

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        # Only here: as in Isaac Lab, an episode's first observation holds the last one's action.
        self._last_actions.zero_()

    def _joint_share(self, qpos: torch.Tensor) -> torch.Tensor:
        """Return joint positions, -1 at the lower and 1 at the upper limit."""
        return (qpos[:, self._robot.qpos_ids] - self._joint_centre) / self._joint_reach
