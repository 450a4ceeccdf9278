"""Turn a cube in a hand: one class for the direct tasks of all hands.

Differs from Isaac Lab 2.3.2:

- Joints start within their limits; Isaac Lab's draws exceed some of them.
- ``consecutive_successes`` is the mean over the episodes that end in a step; Isaac Lab's is a
  moving average of it (``av_factor``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
import torch

from envlab.envs import DirectEnv, DirectEnvCfg, DiscreteCfg, SceneEntityCfg
from envlab.envs.entities import resolve_entity
from envlab.envs.markers import add_body
from envlab.envs.masks import assign, clear, masked_means
from envlab.envs.math import quat_conjugate, quat_error_magnitude, quat_mul
from envlab.state import State
from envlab_tasks.in_hand.direct_hand import Hand, draw_goals, object_state, start_object


@dataclass(kw_only=True)
class InHandEnvCfg(DirectEnvCfg):
    """Turn the cube to one orientation after another, without dropping it."""

    action_space: int | DiscreteCfg = 20
    asymmetric_obs: bool = False
    """Whether a critic observes the full state, and the fingertips' forces."""
    obs_type: Literal["full", "openai"] = "full"
    """The policy's observations: ``full``, or ``openai``, those of OpenAI's hand on itself
    and the cube (arXiv:1808.00177, table 2)."""
    actuated_joint_names: str | list[str]
    """Joints that actions move; regular expressions."""
    fingertip_body_names: str | list[str]
    """Links at the ends of the fingers; regular expressions."""
    reset_position_noise: float = 0.01
    """Largest offset of the cube's start along each axis, in m."""
    reset_dof_pos_noise: float = 0.2
    """Largest offset of joints' starts from the default pose, as a share of their range."""
    reset_dof_vel_noise: float = 0.0
    """Largest initial speed of joints, in rad/s."""
    dist_reward_scale: float = -10.0
    """Reward per distance of the cube from its place in the hand (m)."""
    rot_reward_scale: float = 1.0
    """Reward at the goal's orientation, times ``rot_eps``."""
    rot_eps: float = 0.1
    """Number (rad) added to the angle by which that reward is divided."""
    action_penalty_scale: float = -0.0002
    """Reward per squared action."""
    reach_goal_bonus: float = 250.0
    """Reward for reaching a goal."""
    fall_penalty: float = 0.0
    """Reward for a cube that is lost."""
    fall_dist: float = 0.24
    """Distance from its place at which the cube is lost, in m."""
    vel_obs_scale: float = 0.2
    """Factor of joints' velocities and the cube's angular velocity in observations."""
    success_tolerance: float = 0.1
    """Angle to the goal within which it is reached, in rad."""
    max_consecutive_success: int = 0
    """Number of goals after which an episode ends, as if by its time limit; each reached goal
    then restarts the time. 0: only time ends an episode."""
    act_moving_average: float = 1.0
    """Weight of an action in the joints' targets; the rest is the last target's."""
    force_torque_obs_scale: float = 10.0
    """Factor of forces (N) and torques (N m) in observations."""
    goal_marker_pos: tuple[float, float, float] = (-0.2, -0.45, 0.68)
    """Position of the goal in pictures, in m."""


class InHandEnv(DirectEnv):
    """The task as one class; a hand is its configuration.

    The model has the sensors ``<link>_lin_vel`` and ``<link>_ang_vel`` of each fingertip's link,
    and ``<link>_force`` and ``<link>_torque`` for a critic.

    Attributes:
        goal: Goal orientation of the cube, (w, x, y, z), ``(num_envs, 4)``.
        successes: Number of goals that the episode has reached, ``(num_envs,)``.
    """

    STATE = State(per_env=("goal", "successes"), parts=("_hand",))
    cfg: InHandEnvCfg

    @property
    def success(self) -> torch.Tensor:  # type: ignore[override]
        """Goals that the episode has reached over those it has had, ``n / (n + 1)``."""
        return self.successes / (self.successes + 1.0)

    def _setup(self) -> None:
        cfg, device = self.cfg, self.device
        self._hand = Hand(self, "robot", cfg.actuated_joint_names, cfg.fingertip_body_names)
        if cfg.asymmetric_obs:
            self._wrenches = self._hand.sensors("force", "torque")
        self._cube = resolve_entity(SceneEntityCfg("object"), self.sim.model, device)
        below = torch.tensor([0.0, 0.0, -0.04], device=device)
        self._in_hand_pos = (self.default_qpos[:, self._cube.root_pos] + below).repeat(
            self.num_envs, 1
        )
        self.goal = torch.zeros(self.num_envs, 4, device=device)
        self.goal[:, 0] = 1.0
        self.successes = torch.zeros(self.num_envs, device=device)
        self._last_actions = torch.zeros_like(self._hand.targets)

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._last_actions.copy_(actions)

    def _apply_action(self) -> None:
        self._hand.drive(self._last_actions, self.cfg.act_moving_average)

    # Observations --------------------------------------------------------------------------------

    def _get_observations(self) -> dict[str, torch.Tensor]:
        full, to_goal = self.cfg.obs_type == "full", self._from_goal()
        seen = self._everything(to_goal) if full else self._measured(to_goal)
        observations = {"policy": torch.cat([*seen, self._last_actions], dim=1)}
        if self.cfg.asymmetric_obs:
            wrenches = self.sim.data.sensordata[:, self._wrenches]
            state = [*self._everything(to_goal), self.cfg.force_torque_obs_scale * wrenches]
            observations["critic"] = torch.cat([*state, self._last_actions], dim=1)
        return observations

    def _measured(self, to_goal: torch.Tensor) -> list[torch.Tensor]:
        """Return the positions of the fingertips and the cube, and the rotation to the goal."""
        data = self.sim.data
        tips = data.xpos[:, self._hand.tips.body_ids].flatten(1)
        return [tips, data.qpos[:, self._cube.root_pos], to_goal]

    def _everything(self, to_goal: torch.Tensor) -> list[torch.Tensor]:
        """Return the state of the hand and the cube, the goal, and the fingertips' state."""
        scale = self.cfg.vel_obs_scale
        return [
            *self._hand.joint_state(scale),
            *object_state(self, self._cube, scale),
            self._in_hand_pos,
            self.goal,
            to_goal,
            *self._hand.tip_state(),
        ]

    def _from_goal(self) -> torch.Tensor:
        """Return the rotation from the goal to the cube, ``(num_envs, 4)``."""
        quat = self.sim.data.qpos[:, self._cube.root_quat]
        return quat_mul(quat, quat_conjugate(self.goal))

    # Ends and rewards ---------------------------------------------------------------------------

    def _distance(self) -> torch.Tensor:
        """Return the distance of the cube from its place in the hand, in m, ``(num_envs,)``."""
        position = self.sim.data.qpos[:, self._cube.root_pos]
        return torch.linalg.vector_norm(position - self._in_hand_pos, dim=1)

    def _angle(self) -> torch.Tensor:
        """Return the angle between the cube and its goal, in rad, ``(num_envs,)``."""
        return quat_error_magnitude(self.sim.data.qpos[:, self._cube.root_quat], self.goal)

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        cfg, most = self.cfg, self.cfg.max_consecutive_success
        lost = self._distance() >= cfg.fall_dist
        if most > 0:
            self.episode_length_buf.masked_fill_(self._angle() <= cfg.success_tolerance, 0)
        # Isaac Lab's direct tasks count the step to come, so that an episode is a step shorter.
        time_out = self.episode_length_buf >= self.max_episode_length - 1
        if most > 0:
            time_out = time_out | (self.successes >= most)
        return lost, time_out

    def _get_rewards(self) -> torch.Tensor:
        cfg, distance, angle = self.cfg, self._distance(), self._angle()
        reached = angle <= cfg.success_tolerance
        reward = (
            cfg.dist_reward_scale * distance
            + cfg.rot_reward_scale / (angle + cfg.rot_eps)
            + cfg.action_penalty_scale * self._last_actions.square().sum(dim=1)
            + cfg.reach_goal_bonus * reached
            + cfg.fall_penalty * (distance >= cfg.fall_dist)
        )
        self.successes += reached
        assign(self.goal, reached, draw_goals(self, "next_goal"))
        return reward

    # Starts -------------------------------------------------------------------------------------

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        cfg = self.cfg
        reached, share = masked_means(torch.stack((self.successes, self.success)), mask, count)
        assign(self.goal, mask, draw_goals(self, "goal"))
        start_object(self, self._cube, mask, "reset_object", cfg.reset_position_noise)
        self._hand.start(mask, "reset_hand", cfg.reset_dof_pos_noise, cfg.reset_dof_vel_noise)
        clear(self.successes, mask)
        return {"consecutive_successes": reached, "Metrics/success_rate": share}

    # --------------------------------------------------------------------------------------------

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        quat = self.goal[0].cpu().double().numpy()
        place = np.asarray(self.cfg.goal_marker_pos)
        add_body(scene, self.sim.model, self._cube.root_body, place, quat)

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        # Only here: as in Isaac Lab, an episode's first observation holds the last one's action.
        self._last_actions.zero_()
