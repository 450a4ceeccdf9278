"""Isaac-Quadcopter-Direct-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- The propellers are part of the body; in Isaac Lab they have joints that spin freely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import torch

from envlab.envs import DirectEnv, DirectEnvCfg, DiscreteCfg, SceneCfg, SimulationCfg, default
from envlab.envs.batched_env import Observations
from envlab.envs.markers import add_sphere
from envlab.envs.masks import assign, clear, masked_means
from envlab.envs.math import gravity_in_body, quat_apply_inverse
from envlab.errors import ConfigurationError
from envlab.state import State

MOTORS = ("thrust", "roll", "pitch", "yaw")
"""Actuators of the model: thrust along the body's z axis, and moments about x, y and z."""
REWARDS = ("lin_vel", "ang_vel", "distance_to_goal")
"""Names of the parts of the reward."""


@dataclass(kw_only=True)
class QuadcopterEnvCfg(DirectEnvCfg):
    """Reach a goal and stay there for 10 seconds, at 50 Hz, between the floor and a ceiling."""

    decimation: int = 2
    episode_length_s: float = 10.0
    action_space: int | DiscreteCfg = 4
    observation_space: int = 12
    sim: SimulationCfg = default(SimulationCfg(dt=1.0 / 100.0))
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/quadcopter.xml"))
    thrust_to_weight: float = 1.9
    """Thrust of action 1, in weights of the drone; action -1 is none."""
    moment_scale: float = 0.01
    """Moment of action 1, in N m."""
    lin_vel_reward_scale: float = -0.05
    """Reward per second and squared speed (m/s)."""
    ang_vel_reward_scale: float = -0.01
    """Reward per second and squared angular speed (rad/s)."""
    distance_to_goal_reward_scale: float = 15.0
    """Reward per second at the goal; elsewhere ``1 - tanh(distance / 0.8 m)`` of it."""
    height_range: tuple[float, float] = (0.1, 2.0)
    """Bounds of the drone's height, in m, outside which an episode ends."""
    goal_range: tuple[tuple[float, float], ...] = ((-2.0, 2.0), (-2.0, 2.0), (0.5, 1.5))
    """Bounds of the goal's coordinates, in m."""


class QuadcopterEnv(DirectEnv):
    """The task as one class.

    The motors act in the body's frame, as Isaac Lab's external wrench does, and so turn with the
    drone in each physics step.
    """

    STATE = State(per_env=("goal",), per_env_dim_1=("_sums",))
    cfg: QuadcopterEnvCfg

    def reset(  # type: ignore[override]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Reset environments; where all of them, let their episodes begin at random steps.

        As in Isaac Lab, so that later episodes do not all end at the same time. See
        :meth:`envlab.envs.BatchedEnv.reset`.
        """
        result = super().reset(seed=seed, options=options)
        if not options or "reset_mask" not in options:
            stream = self.random.stream("initial_episode_length")
            self.episode_length_buf = stream.integers(0, self.max_episode_length)
        return result

    def _setup(self) -> None:
        model, cfg = self.sim.model, self.cfg
        names = [model.actuator(i).name for i in range(model.nu)]
        if names != list(MOTORS) or model.nq != 7:
            raise ConfigurationError(
                f"The model of a quadcopter has the actuators {', '.join(names) or 'none'} and "
                f"{model.nq} positions, but needs {', '.join(MOTORS)}, in this order, and one free "
                "joint. Set env.scene.model to such a model."
            )
        gravity = float(np.linalg.norm(model.opt.gravity))
        weight = float(model.body_mass.sum()) * gravity
        lift, moment = 0.5 * cfg.thrust_to_weight * weight, cfg.moment_scale
        self._scale = torch.tensor([lift, moment, moment, moment], device=self.device)
        self._offset = torch.tensor([lift, 0.0, 0.0, 0.0], device=self.device)
        scales = (
            cfg.lin_vel_reward_scale,
            cfg.ang_vel_reward_scale,
            cfg.distance_to_goal_reward_scale,
        )
        self._reward_scales = torch.tensor(scales, device=self.device).unsqueeze(1) * self.step_dt
        self.goal = torch.zeros(self.num_envs, 3, device=self.device)
        """Goal positions, in m, ``(num_envs, 3)``."""
        self._sums = torch.zeros(len(REWARDS), self.num_envs, device=self.device)
        self._dones = torch.zeros(2, self.num_envs, dtype=torch.bool, device=self.device)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._controls = actions.clamp(-1.0, 1.0) * self._scale + self._offset

    def _apply_action(self) -> None:
        self.sim.ctrl.copy_(self._controls)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        qpos, qvel = self.sim.data.qpos, self.sim.data.qvel
        turned = qpos[:, 3:7]
        parts = (
            quat_apply_inverse(turned, qvel[:, :3]),
            qvel[:, 3:],
            gravity_in_body(turned),
            quat_apply_inverse(turned, self.goal - qpos[:, :3]),
        )
        return {"policy": torch.cat(parts, dim=1)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        height, (low, high) = self.sim.data.qpos[:, 2], self.cfg.height_range
        died = (height < low) | (height > high)
        # Isaac Lab's direct tasks count the step to come, so that an episode has 499 steps of 500.
        time_out = self.episode_length_buf >= self.max_episode_length - 1
        self._dones = torch.stack((died, time_out))
        return died, time_out

    def _get_rewards(self) -> torch.Tensor:
        squares = self.sim.data.qvel.square()
        near = 1.0 - torch.tanh(self._distance() / 0.8)
        values = torch.stack((squares[:, :3].sum(dim=1), squares[:, 3:].sum(dim=1), near))
        values *= self._reward_scales
        self._sums += values
        return values.sum(dim=0)

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        log = self._log(mask, count)
        clear(self._sums.T, mask)
        drawn = self.random.stream("goal").ranges(self.cfg.goal_range, mask)
        assign(self.goal, mask, drawn)
        return log

    def _log(self, mask: torch.Tensor, count: torch.Tensor | int) -> dict[str, Any]:
        seconds = self.cfg.episode_length_s
        sums = masked_means(self._sums, mask, count)
        shares = masked_means(self._dones, mask, count)
        (distance,) = masked_means(self._distance().unsqueeze(0), mask, count)
        return {
            **{
                f"Episode_Reward/{name}": total / seconds
                for name, total in zip(REWARDS, sums, strict=True)
            },
            "Episode_Termination/died": shares[0],
            "Episode_Termination/time_out": shares[1],
            "Metrics/final_distance_to_goal": distance,
        }

    def _distance(self) -> torch.Tensor:
        """Return the distance to the goal, in m, ``(num_envs,)``."""
        return torch.linalg.vector_norm(self.goal - self.sim.data.qpos[:, :3], dim=1)

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        add_sphere(scene, self.goal[0].cpu().numpy(), radius=0.02, rgba=(0.95, 0.75, 0.1, 0.8))
