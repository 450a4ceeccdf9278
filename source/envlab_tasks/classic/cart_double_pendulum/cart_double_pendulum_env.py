"""Isaac-Cart-Double-Pendulum-Direct-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- A pole's positive angle leans towards the cart's positive direction, in Isaac Lab (by its USD
  file) to the other side: a policy from Isaac Lab needs both signs of the pole flipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from envlab.envs import (
    DirectMarlEnv,
    DirectMarlEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
)
from envlab.envs.entities import joint_actuators, resolve_entity


@dataclass(kw_only=True)
class CartDoublePendulumEnvCfg(DirectMarlEnvCfg):
    """Balance for 5 seconds at 60 Hz; the episode ends for both agents when the pole falls.

    ``cart`` pushes the cart and is rewarded for the lower link, the pole; ``pendulum`` twists the
    joint between the links and is rewarded for the upper one, the pendulum.
    """

    decimation: int = 2
    episode_length_s: float = 5.0
    possible_agents: list[str] = default(["cart", "pendulum"])
    action_spaces: dict[str, int] = default({"cart": 1, "pendulum": 1})
    observation_spaces: dict[str, int] = default({"cart": 4, "pendulum": 3})
    state_space: int = -1
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 120.0))
    scene: SceneCfg = default(
        SceneCfg(num_envs=4096, model="envlab_assets:robots/cart_double_pendulum.xml")
    )
    cart_dof_name: str = "slider_to_cart"
    """Joint between rail and cart."""
    pole_dof_name: str = "cart_to_pole"
    """Joint between cart and pole."""
    pendulum_dof_name: str = "pole_to_pendulum"
    """Joint between pole and pendulum."""
    cart_action_scale: float = 100.0
    """Force on the cart per unit of action, in N."""
    pendulum_action_scale: float = 50.0
    """Torque between pole and pendulum per unit of action, in N m."""
    max_cart_pos: float = 3.0
    """Distance from the centre at which the cart has left the rail, in m."""
    initial_pole_angle_range: tuple[float, float] = (-0.25, 0.25)
    """Bounds of the pole's first angle, in units of pi rad."""
    initial_pendulum_angle_range: tuple[float, float] = (-0.25, 0.25)
    """Bounds of the pendulum's first angle, from the pole's, in units of pi rad."""
    rew_scale_alive: float = 1.0
    """Reward of either agent per step that does not end the episode in failure."""
    rew_scale_terminated: float = -2.0
    """Reward of either agent for a failure."""
    rew_scale_cart_pos: float = 0.0
    """Reward of ``cart`` per squared distance from the centre (m); in Isaac Lab without effect."""
    rew_scale_cart_vel: float = -0.01
    """Reward of ``cart`` per absolute cart velocity (m/s)."""
    rew_scale_pole_pos: float = -1.0
    """Reward of ``cart`` per squared pole angle (rad)."""
    rew_scale_pole_vel: float = -0.01
    """Reward of ``cart`` per absolute pole velocity (rad/s)."""
    rew_scale_pendulum_pos: float = -1.0
    """Reward of ``pendulum`` per squared angle of the pendulum from the vertical (rad)."""
    rew_scale_pendulum_vel: float = -0.01
    """Reward of ``pendulum`` per absolute pendulum velocity (rad/s)."""


class CartDoublePendulumEnv(DirectMarlEnv):
    """The task as one class."""

    cfg: CartDoublePendulumEnvCfg

    def _setup(self) -> None:
        cfg, model = self.cfg, self.sim.model
        joints = (cfg.cart_dof_name, cfg.pole_dof_name, cfg.pendulum_dof_name)
        self._cart, self._pole, self._pendulum = (
            resolve_entity(SceneEntityCfg(joint_names=joint), model, self.device).qpos_ids
            for joint in joints
        )
        (push,) = joint_actuators(model, cfg.cart_dof_name)
        (twist,) = joint_actuators(model, cfg.pendulum_dof_name)
        self._push, self._twist = slice(push, push + 1), slice(twist, twist + 1)

    def _pre_physics_step(self, actions: dict[str, torch.Tensor]) -> None:
        self._force = actions["cart"] * self.cfg.cart_action_scale
        self._torque = actions["pendulum"] * self.cfg.pendulum_action_scale

    def _apply_action(self) -> None:
        self.sim.ctrl[:, self._push] = self._force
        self.sim.ctrl[:, self._twist] = self._torque

    def _get_observations(self) -> dict[str, torch.Tensor]:
        pos, vel = self.sim.data.qpos, self.sim.data.qvel
        pole, pendulum = wrap(pos[:, self._pole]), wrap(pos[:, self._pendulum])
        cart = (pos[:, self._cart], vel[:, self._cart], pole, vel[:, self._pole])
        return {
            "cart": torch.cat(cart, dim=1),
            "pendulum": torch.cat((pole + pendulum, pendulum, vel[:, self._pendulum]), dim=1),
        }

    def _get_dones(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        cart, pole = self.sim.data.qpos[:, self._cart], self.sim.data.qpos[:, self._pole]
        is_off = (cart.abs() > self.cfg.max_cart_pos) | (pole.abs() > math.pi / 2)
        self._failed = is_off.any(dim=1)
        # Isaac Lab's direct tasks count the step to come, so that an episode has 299 steps of 300.
        time_out = self.episode_length_buf >= self.max_episode_length - 1
        agents = self.possible_agents
        return dict.fromkeys(agents, self._failed), dict.fromkeys(agents, time_out)

    def _get_rewards(self) -> dict[str, torch.Tensor]:
        cfg, failed = self.cfg, self._failed.float()
        pos, speed = self.sim.data.qpos, self.sim.data.qvel.abs()
        pole, pendulum = wrap(pos[:, self._pole]), wrap(pos[:, self._pendulum])
        shared = cfg.rew_scale_alive * (1.0 - failed) + cfg.rew_scale_terminated * failed
        cart = (
            cfg.rew_scale_pole_pos * pole.square()
            + cfg.rew_scale_cart_pos * pos[:, self._cart].square()
            + cfg.rew_scale_cart_vel * speed[:, self._cart]
            + cfg.rew_scale_pole_vel * speed[:, self._pole]
        )
        upper = (
            cfg.rew_scale_pendulum_pos * (pole + pendulum).square()
            + cfg.rew_scale_pendulum_vel * speed[:, self._pendulum]
        )
        return {"cart": shared + cart.sum(dim=1), "pendulum": shared + upper.sum(dim=1)}

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        ranges = (self.cfg.initial_pole_angle_range, self.cfg.initial_pendulum_angle_range)
        bounds = [(low * math.pi, high * math.pi) for low, high in ranges]
        angles = self.random.stream("reset").ranges(bounds, mask)
        self.reset_qpos[:, self._pole] = self.default_qpos[:, self._pole] + angles[:, :1]
        self.reset_qpos[:, self._pendulum] = self.default_qpos[:, self._pendulum] + angles[:, 1:]
        return {}


def wrap(angle: torch.Tensor) -> torch.Tensor:
    """Return ``angle`` (rad) without whole turns, in [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi
