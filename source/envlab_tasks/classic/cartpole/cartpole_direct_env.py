"""Isaac-Cartpole-Direct-v0. The numbers are those of Isaac Lab 2.3.2 (direct Cartpole).

Differs from Isaac Lab 2.3.2:

- A pole's positive angle leans towards the cart's positive direction, in Isaac Lab (by its USD
  file) to the other side: a policy from Isaac Lab needs both signs of the pole flipped.
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


@dataclass(kw_only=True)
class CartpoleDirectEnvCfg(DirectEnvCfg):
    """Balance a pole for 5 seconds at 60 Hz; the episode ends when the pole falls."""

    decimation: int = 2
    episode_length_s: float = 5.0
    action_space: int | DiscreteCfg = 1
    observation_space: int | list[int] | None = 4
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0))
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/cartpole.xml"))
    cart_dof_name: str = "slider_to_cart"
    """Joint between rail and cart."""
    pole_dof_name: str = "cart_to_pole"
    """Joint between cart and pole."""
    action_scale: float = 100.0
    """Force on the cart per unit of action, in N."""
    max_cart_pos: float = 3.0
    """Distance from the centre at which the cart has left the rail, in m."""
    initial_pole_angle_range: tuple[float, float] = (-0.25, 0.25)
    """Bounds of the pole's first angle, in units of pi rad."""
    rew_scale_alive: float = 1.0
    """Reward per step that does not end in failure."""
    rew_scale_terminated: float = -2.0
    """Reward of a failure."""
    rew_scale_pole_pos: float = -1.0
    """Reward per squared pole angle (rad)."""
    rew_scale_cart_vel: float = -0.01
    """Reward per absolute cart velocity (m/s)."""
    rew_scale_pole_vel: float = -0.005
    """Reward per absolute pole velocity (rad/s)."""


class CartpoleDirectEnv(DirectEnv):
    """The task as one class."""

    cfg: CartpoleDirectEnvCfg

    def _setup(self) -> None:
        cart = SceneEntityCfg(joint_names=self.cfg.cart_dof_name)
        pole = SceneEntityCfg(joint_names=self.cfg.pole_dof_name)
        self._cart = resolve_entity(cart, self.sim.model, self.device).qpos_ids
        self._pole = resolve_entity(pole, self.sim.model, self.device).qpos_ids

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._force = actions * self.cfg.action_scale

    def _apply_action(self) -> None:
        self.sim.ctrl.copy_(self._force)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        pos, vel = self.sim.data.qpos, self.sim.data.qvel
        parts = (pos[:, self._pole], vel[:, self._pole], pos[:, self._cart], vel[:, self._cart])
        return {"policy": torch.cat(parts, dim=1)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        cart, pole = self.sim.data.qpos[:, self._cart], self.sim.data.qpos[:, self._pole]
        self._failed = ((cart.abs() > self.cfg.max_cart_pos) | (pole.abs() > math.pi / 2)).any(
            dim=1
        )
        # Isaac Lab's direct tasks count the step to come, so that an episode has 299 steps of 300.
        return self._failed, self.episode_length_buf >= self.max_episode_length - 1

    def _get_rewards(self) -> torch.Tensor:
        cfg, failed = self.cfg, self._failed.float()
        pole, pole_vel = self.sim.data.qpos[:, self._pole], self.sim.data.qvel[:, self._pole]
        return (
            cfg.rew_scale_alive * (1.0 - failed)
            + cfg.rew_scale_terminated * failed
            + cfg.rew_scale_pole_pos * pole.square().sum(dim=1)
            + cfg.rew_scale_cart_vel * self.sim.data.qvel[:, self._cart].abs().sum(dim=1)
            + cfg.rew_scale_pole_vel * pole_vel.abs().sum(dim=1)
        )

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        low, high = self.cfg.initial_pole_angle_range
        angle = self.random.stream("reset").uniform(low * math.pi, high * math.pi, 1, mask)
        self.reset_qpos[:, self._pole] = self.default_qpos[:, self._pole] + angle
        return {}
