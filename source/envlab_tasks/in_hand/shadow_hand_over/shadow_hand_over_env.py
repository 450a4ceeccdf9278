"""Isaac-Shadow-Hand-Over-Direct-v0. The numbers are those of Isaac Lab 2.3.2.

Differs from Isaac Lab 2.3.2:

- The Shadow hand's tendons are limits, as in OpenAI's MJCF; in Isaac Lab they are also springs.
- Joints start within their limits; Isaac Lab's draws exceed some of them.
- Ball and hand have one coefficient of friction, 0.85; Isaac Lab has a static coefficient of 0.85
  and a dynamic coefficient of 0.75.
- ``dist_reward`` and ``dist_goal`` are logged for the episodes that end in a step; Isaac Lab logs
  them for all environments.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from envlab.envs import (
    DirectMarlEnv,
    DirectMarlEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    SimulationCfg,
    default,
)
from envlab.envs.entities import resolve_entity
from envlab.envs.markers import add_body
from envlab.envs.masks import assign, masked_means
from envlab.envs.math import quat_conjugate, quat_mul
from envlab.state import State
from envlab_tasks.in_hand.direct_hand import Hand, draw_goals, object_state, start_object

ROBOTS = {"right_hand": "right_robot", "left_hand": "left_robot"}
"""The topmost body of each agent's hand; both are right hands, as in Isaac Lab."""
GOAL_RGBA = (0.4, 0.3, 1.0, 0.6)
"""Colour of the goal in pictures."""


@dataclass(kw_only=True)
class ShadowHandOverEnvCfg(DirectMarlEnvCfg):
    """Bring the ball from the right hand to a place over the left one, for 7.5 seconds at 60 Hz."""

    decimation: int = 2
    episode_length_s: float = 7.5
    possible_agents: list[str] = default(list(ROBOTS))
    action_spaces: dict[str, int] = default(dict.fromkeys(ROBOTS, 20))
    observation_spaces: dict[str, int] = default(dict.fromkeys(ROBOTS, 157))
    state_space: int = 290
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 120.0,
            data_fields=("xpos", "xquat", "sensordata"),
            num_contacts_max=64,
            num_constraints_max=384,
        )
    )
    scene: SceneCfg = default(
        SceneCfg(num_envs=2048, model="envlab_assets:robots/shadow_hand_over.xml")
    )
    actuated_joint_names: str | list[str] = default(
        [".*_robot0_WRJ.", ".*_robot0_(FF|MF|RF|LF)J[1-4]", ".*_robot0_THJ."]
    )
    """Joints of a hand that actions move; regular expressions."""
    fingertip_body_names: str | list[str] = ".*_robot0_..distal"
    """Links at the ends of a hand's fingers; regular expressions."""
    goal_pos: tuple[float, float, float] = (0.0, -0.64, 0.54)
    """Goal position of the ball, in m."""
    reset_position_noise: float = 0.01
    """Largest offset of the ball's start along each axis, in m."""
    reset_dof_pos_noise: float = 0.2
    """Largest offset of joints' starts from the default pose, as a share of their range."""
    reset_dof_vel_noise: float = 0.0
    """Largest initial speed of joints, in rad/s."""
    fall_dist: float = 0.24
    """Height at which the ball has fallen, in m."""
    vel_obs_scale: float = 0.2
    """Factor of joints' velocities and the ball's angular velocity in observations."""
    act_moving_average: float = 1.0
    """Weight of an action in the joints' targets; the rest is the last target's."""
    dist_reward_scale: float = 20.0
    """Decay rate of the reward with the ball's distance from its goal, per m."""


class ShadowHandOverEnv(DirectMarlEnv):
    """The task as one class.

    Attributes:
        goal: Orientation that observations compare the ball's with, (w, x, y, z), ``(num_envs,
            4)``; no reward asks for it.
    """

    STATE = State(per_env=("goal",), parts=("_hands",))
    cfg: ShadowHandOverEnvCfg

    def _setup(self) -> None:
        cfg, device = self.cfg, self.device
        self._hands = {
            agent: Hand(self, robot, cfg.actuated_joint_names, cfg.fingertip_body_names)
            for agent, robot in ROBOTS.items()
        }
        self._ball = resolve_entity(SceneEntityCfg("object"), self.sim.model, device)
        self._goal_pos = torch.tensor(cfg.goal_pos, device=device).repeat(self.num_envs, 1)
        self.goal = torch.zeros(self.num_envs, 4, device=device)
        self.goal[:, 0] = 1.0
        self._last_actions = {
            agent: torch.zeros_like(hand.targets) for agent, hand in self._hands.items()
        }

    def _pre_physics_step(self, actions: dict[str, torch.Tensor]) -> None:
        for agent, last in self._last_actions.items():
            last.copy_(actions[agent])

    def _apply_action(self) -> None:
        for agent, hand in self._hands.items():
            hand.drive(self._last_actions[agent], self.cfg.act_moving_average)

    # Observations --------------------------------------------------------------------------------

    def _get_observations(self) -> dict[str, torch.Tensor]:
        ball = self._ball_and_goal()
        return {agent: torch.cat([*self._of_hand(agent), *ball], dim=1) for agent in self._hands}

    def _get_states(self) -> torch.Tensor:
        hands = [values for agent in self._hands for values in self._of_hand(agent)]
        return torch.cat([*hands, *self._ball_and_goal()], dim=1)

    def _of_hand(self, agent: str) -> list[torch.Tensor]:
        hand = self._hands[agent]
        joints = hand.joint_state(self.cfg.vel_obs_scale)
        return [*joints, *hand.tip_state(), self._last_actions[agent]]

    def _ball_and_goal(self) -> list[torch.Tensor]:
        quat = self.sim.data.qpos[:, self._ball.root_quat]
        from_goal = quat_mul(quat, quat_conjugate(self.goal))
        ball = object_state(self, self._ball, self.cfg.vel_obs_scale)
        return [*ball, self._goal_pos, self.goal, from_goal]

    # Ends and rewards ---------------------------------------------------------------------------

    def _distance(self) -> torch.Tensor:
        """Return the distance of the ball from its goal, in m, ``(num_envs,)``."""
        position = self.sim.data.qpos[:, self._ball.root_pos]
        return torch.linalg.vector_norm(position - self._goal_pos, dim=1)

    def _reward(self, distance: torch.Tensor) -> torch.Tensor:
        return 2.0 * torch.exp(-self.cfg.dist_reward_scale * distance)

    def _get_dones(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        fallen = self.sim.data.qpos[:, self._ball.root_pos][:, 2] <= self.cfg.fall_dist
        # Isaac Lab's direct tasks count the step to come, so that an episode is a step shorter.
        time_out = self.episode_length_buf >= self.max_episode_length - 1
        agents = self.possible_agents
        return dict.fromkeys(agents, fallen), dict.fromkeys(agents, time_out)

    def _get_rewards(self) -> dict[str, torch.Tensor]:
        return dict.fromkeys(self.possible_agents, self._reward(self._distance()))

    # Starts -------------------------------------------------------------------------------------

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        cfg, distance = self.cfg, self._distance()
        reward, away = masked_means((self._reward(distance), distance), mask, count)
        assign(self.goal, mask, draw_goals(self, "goal"))
        start_object(self, self._ball, mask, "reset_object", cfg.reset_position_noise)
        for agent, hand in self._hands.items():
            stream = f"reset_{agent}"
            hand.start(mask, stream, cfg.reset_dof_pos_noise, cfg.reset_dof_vel_noise)
        return {"dist_reward": reward, "dist_goal": away}

    # --------------------------------------------------------------------------------------------

    def add_markers(self, scene: mujoco.MjvScene) -> None:
        quat = self.goal[0].cpu().double().numpy()
        place = np.asarray(self.cfg.goal_pos)
        add_body(scene, self.sim.model, self._ball.root_body, place, quat, GOAL_RGBA)

    def _restart(self, seed: int) -> None:
        super()._restart(seed)
        # Only here: as in Isaac Lab, an episode's first observation holds the last one's action.
        for last in self._last_actions.values():
            last.zero_()
