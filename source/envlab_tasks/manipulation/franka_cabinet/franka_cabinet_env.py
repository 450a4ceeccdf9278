"""Isaac-Franka-Cabinet-Direct-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- The joints' targets start at the joints' positions; in Isaac Lab, where the last episode left
  them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from envlab.envs import (
    DirectEnv,
    DirectEnvCfg,
    DiscreteCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
)
from envlab.envs.entities import resolve_entity
from envlab.envs.masks import assign, masked_means
from envlab.envs.math import quat_apply, quat_mul
from envlab.envs.mdp.events import joint_limits
from envlab.state import State
from envlab_tasks.manipulation import franka

START_RANGE = (-0.125, 0.125)
"""Bounds of joints' initial offsets from the default pose, in rad and m."""
GRASP_POINT = (0.0, 0.04, 0.1654)
"""Grasp point of the hand, in the frame of its last link, in m: 4 cm off the fingers' roots."""
HANDLE = (0.3, 0.01, 0.0)
"""Point to grasp, in the frame of the drawer, in m."""
BONUS = 0.25
"""Reward for each of :data:`OPENED` that the drawer is beyond."""
OPENED = (0.01, 0.2, 0.35)
"""Openings of the drawer, in m."""


@dataclass(kw_only=True)
class FrankaCabinetEnvCfg(DirectEnvCfg):
    """Pull the drawer out by 39 cm within 8.33 seconds, at 60 Hz."""

    decimation: int = 2
    episode_length_s: float = 8.3333
    action_space: int | DiscreteCfg = 9
    observation_space: int | list[int] | None = 23
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0, data_fields=franka.IK_FIELDS))
    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model="envlab_assets:robots/franka_cabinet_direct.xml")
    )
    action_scale: float = 7.5
    """Speed of the targets of the arm's joints per unit of action, in rad/s; for the fingers, a
    tenth of it in m/s."""
    dof_velocity_scale: float = 0.1
    """Factor of joint velocities in the observation."""
    open_distance: float = 0.39
    """Opening of the drawer at which the task is done, in m."""
    dist_reward_scale: float = 1.5
    """Reward for a hand at the handle."""
    rot_reward_scale: float = 1.5
    """Reward for a hand turned as a grasp is."""
    open_reward_scale: float = 10.0
    """Reward per distance that the drawer is out (m)."""
    action_penalty_scale: float = 0.05
    """Reward, negative, per squared action."""
    finger_reward_scale: float = 2.0
    """Reward, negative, per distance that a finger is on the wrong side of the handle (m)."""


class FrankaCabinetEnv(DirectEnv):
    """The task as one class."""

    STATE = State(per_env=("targets",))
    cfg: FrankaCabinetEnvCfg

    @property
    def success(self) -> torch.Tensor:  # type: ignore[override]
        """Whether the drawer is out, which ends the episode, ``(num_envs,)``.

        Isaac Lab 2.3.2 defines no success. Its version 3 counts 30 cm, as Open-Drawer does, in a
        direct task of other rewards that goes on.
        """
        return (self._opening()[:, 0] > self.cfg.open_distance).float()

    def _setup(self) -> None:
        model, device = self.sim.model, self.device
        self._arm = resolve_entity(SceneEntityCfg("robot", joint_names="panda_.*"), model, device)
        drawer = SceneEntityCfg("cabinet", joint_names="drawer_top_joint")
        self._drawer = resolve_entity(drawer, model, device)
        self._link, self._left, self._right, self._front = (
            model.body(name).id
            for name in ("panda_link7", "panda_leftfinger", "panda_rightfinger", "drawer_top")
        )
        self.limits = joint_limits(self, self._arm)
        speeds = [0.1 if "finger" in name else 1.0 for name in self._arm.joint_names]
        self._speeds = torch.tensor(speeds, device=device) * self.cfg.action_scale * self.step_dt
        self.targets = torch.zeros(self.num_envs, len(speeds), device=device)
        self._clamped = torch.zeros_like(self.targets)
        # The fingers' frame is an eighth of a turn from that of the last link.
        half = -math.pi / 8.0
        self._turn = torch.tensor([math.cos(half), 0.0, 0.0, math.sin(half)], device=device)
        self._grasp_point = torch.tensor(GRASP_POINT, device=device).expand(self.num_envs, 3)
        self._handle = torch.tensor(HANDLE, device=device).expand(self.num_envs, 3)
        axes = torch.eye(3, device=device)
        self._x, self._y, self._z = (axis.expand(self.num_envs, 3) for axis in axes)
        self._opened = torch.tensor(OPENED, device=device)
        # Isaac Lab's world is half a turn from the scene's, see the model.
        self._to_its_world = torch.tensor([-1.0, -1.0, 1.0], device=device)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        torch.clamp(actions, -1.0, 1.0, out=self._clamped)
        self.targets += self._speeds * self._clamped
        self.targets.clamp_(*self.limits)

    def _apply_action(self) -> None:
        self.sim.ctrl.copy_(self.targets)

    def _opening(self) -> torch.Tensor:
        """Return the opening of the drawer, in m, ``(num_envs, 1)``."""
        return self.sim.data.qpos[:, self._drawer.qpos_ids]

    def grasp(self) -> torch.Tensor:
        """Return the hand's grasp point, in m, ``(num_envs, 3)``."""
        data = self.sim.data
        away = quat_apply(data.xquat[:, self._link], self._grasp_point)
        return data.xpos[:, self._link] + away

    def goal(self) -> torch.Tensor:
        """Return the point to grasp, in m, ``(num_envs, 3)``."""
        data = self.sim.data
        return data.xpos[:, self._front] + quat_apply(data.xquat[:, self._front], self._handle)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        data, (low, high) = self.sim.data, self.limits
        parts = (
            2.0 * (data.qpos[:, self._arm.qpos_ids] - low) / (high - low) - 1.0,
            data.qvel[:, self._arm.qvel_ids] * self.cfg.dof_velocity_scale,
            (self.goal() - self.grasp()) * self._to_its_world,
            self._opening(),
            data.qvel[:, self._drawer.qvel_ids],
        )
        return {"policy": torch.cat(parts, dim=1).clamp(-5.0, 5.0)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        is_open = self._opening()[:, 0] > self.cfg.open_distance
        # Isaac Lab's direct tasks count the step to come, so that an episode has 499 steps of 500.
        return is_open, self.episode_length_buf >= self.max_episode_length - 1

    def _get_rewards(self) -> torch.Tensor:
        cfg, opening, goal = self.cfg, self._opening(), self.goal()
        return (
            cfg.dist_reward_scale * self.nearness(goal)
            + cfg.rot_reward_scale * self.alignment()
            + cfg.open_reward_scale * opening[:, 0]
            + cfg.finger_reward_scale * self.straddling(goal)
            - cfg.action_penalty_scale * self._clamped.square().sum(dim=1)
            + BONUS * (opening > self._opened).sum(dim=1)
        )

    def nearness(self, goal: torch.Tensor) -> torch.Tensor:
        """Return ``1 / (1 + d^2)^2`` of the distance, and twice that within 2 cm."""
        distance = torch.linalg.vector_norm(self.grasp() - goal, dim=1)
        nearness = (1.0 + distance.square()).reciprocal().square()
        return torch.where(distance <= 0.02, 2.0 * nearness, nearness)

    def alignment(self) -> torch.Tensor:
        """Return 1 where the hand points into the cabinet with its fingers above one another."""
        data = self.sim.data
        hand = quat_mul(data.xquat[:, self._link], self._turn)
        drawer = data.xquat[:, self._front]
        inward = (quat_apply(hand, self._z) * quat_apply(drawer, -self._x)).sum(dim=1)
        upward = (quat_apply(hand, self._y) * quat_apply(drawer, self._z)).sum(dim=1)
        return 0.5 * (inward * inward.abs() + upward * upward.abs())

    def straddling(self, goal: torch.Tensor) -> torch.Tensor:
        """Return 0 where the left finger is above the handle and the right one below, else less."""
        heights = self.sim.data.xpos[:, :, 2]
        left, right = heights[:, self._left] - goal[:, 2], goal[:, 2] - heights[:, self._right]
        return left.clamp(max=0.0) + right.clamp(max=0.0)

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        (opened,) = masked_means(self.success.unsqueeze(0), mask, count)
        num, ids = len(self._arm.joint_names), self._arm.qpos_ids
        drawn = self.random.stream("reset").ranges([START_RANGE] * num, mask)
        self.reset_qpos[:, ids] = (self.default_qpos[:, ids] + drawn).clamp(*self.limits)
        assign(self.targets, mask, self.reset_qpos[:, ids])
        return {"Metrics/success_rate": opened}
