"""An expert: descends the geodesic distance, for all agents in one batch.

It is an upper bound of an agent's results, and a teacher for imitation.
"""

from __future__ import annotations

import math

import torch

from envlab.errors import ConfigurationError
from envlab.state import State
from envlab_navigation.nav_cfg import Action
from envlab_navigation.nav_env import TAN_PITCH, YAW, NavEnv, X, Y

_REACHES_M = (0.25, 0.5)
"""Distances ahead in each direction at which the field is read: a step, and two."""
_TURN_COST_M = 0.02
"""The gain that a turn must bring, so that an agent does not swing between equally good
directions."""
_BLOCKED_M = 5.0
_NEAR_M = 0.6
"""Nearer than this, two steps ahead would pass the goal."""
_PATIENCE = 28
"""Steps without progress: enough to look around for the goal, level and down."""
_STROLL = 5
"""Random steps that follow them: something may hide the goal, or steps and turns of these sizes may
lead back and forth."""


class Expert:
    """Chooses actions for a :class:`NavEnv`; near an unseen goal, it looks around.

    Unlike agents, it sees the distances and the free cells.
    """

    STATE = State(per_env=("_ahead", "_last_travelled", "_nearest", "_waited"))

    def __init__(self, env: NavEnv) -> None:
        """Watch ``env``.

        Raises:
            ConfigurationError: If the agents can't turn or move.
        """
        for name in ("MoveAhead", "RotateLeft", "RotateRight", "End"):
            if name not in env.cfg.actions:
                raise ConfigurationError(
                    f"The expert needs the action {name!r}, but env.actions is {env.cfg.actions}."
                )
        self._env = env
        turns = round(360.0 / env.cfg.turn_deg)
        self._turns = torch.arange(turns, device=env.device) - (turns - 1) // 2
        """Turns to the left, which give the directions."""
        self._ahead = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        """Whether the last action was to move ahead."""
        self._last_travelled = env.travelled.clone()
        self._nearest = env.distance.clone()
        self._waited = torch.zeros_like(env.episode_length_buf)
        """Steps since the smallest distance to the goal."""

    def act(self) -> torch.Tensor:
        """Return the next actions, int64 ``(num_envs, 1)``."""
        env = self._env
        turn = self._turns[self._values().argmin(dim=1)]
        is_stuck = self._ahead & (env.travelled - self._last_travelled < 0.02)
        is_stuck &= env.episode_length_buf > 0
        turn = torch.where(is_stuck & (turn == 0), 1, turn)
        turn = torch.where(env.agents.mirrored, -turn, turn)
        action = torch.where(
            turn > 0,
            self._number("RotateLeft"),
            torch.where(turn < 0, self._number("RotateRight"), self._number("MoveAhead")),
        )
        arrived = env.distance <= env.cfg.success_tolerance_m
        end = torch.full_like(action, self._number("End"))
        if env.cfg.goal == "object":
            end = torch.where(env.sees_goal(), end, self._search())
        action = torch.where(arrived, end, action)
        step = torch.where(
            self._draw() < 0.6, self._number("MoveAhead"), self._number("RotateLeft")
        )
        action = torch.where(self._is_strolling() & (action != self._number("End")), step, action)
        self._ahead = action == self._number("MoveAhead")
        self._last_travelled.copy_(env.travelled)
        return action.unsqueeze(1)

    def note_taken(self, actions: torch.Tensor) -> None:
        """Note which actions were taken, ``(num_envs, 1)``, if another than the expert acts.

        It considers an agent stuck that should have moved ahead, and has not.
        """
        self._ahead = actions[:, 0] == self._number("MoveAhead")

    def _is_strolling(self) -> torch.Tensor:
        """Return which agents have made no progress for a while, bool ``(num_envs,)``."""
        env = self._env
        is_nearer = (env.distance < self._nearest - 0.05) | (env.episode_length_buf == 0)
        self._nearest = torch.where(is_nearer, env.distance, self._nearest)
        self._waited = torch.where(is_nearer, 0, self._waited + 1)
        return self._waited % (_PATIENCE + _STROLL) >= _PATIENCE

    def _values(self) -> torch.Tensor:
        """Return distances by direction, ``(num_envs, num_turns)``; the smallest is best."""
        env = self._env
        yaw = env.pose[:, YAW, None] + self._turns * math.radians(env.cfg.turn_deg)
        direction = torch.stack((yaw.cos(), yaw.sin()), dim=2)
        value = _TURN_COST_M * self._turns.abs().expand_as(yaw)
        for reach, weight in zip(_REACHES_M, (0.2, 1.0), strict=True):
            points = env.pose[:, None, [X, Y]] + reach * direction
            far = env.distances_from(points) + _BLOCKED_M * ~env.is_free(points)
            is_wanted = (env.distance >= _NEAR_M).unsqueeze(1) if reach > _REACHES_M[0] else True
            value = value + weight * far * is_wanted
        return value

    def _draw(self) -> torch.Tensor:
        return self._env.random.stream("expert").uniform(0.0, 1.0, 1)[:, 0]

    def _search(self) -> torch.Tensor:
        """Return actions near an unseen goal: full turns, and another pitch after each turn."""
        env = self._env
        turn_left = torch.full((env.num_envs,), self._number("RotateLeft"), device=env.device)
        if not {"LookUp", "LookDown"} <= set(env.cfg.actions):
            return turn_left
        is_level = env.pose[:, TAN_PITCH].abs() < 1e-3
        elsewhere = torch.where(is_level, self._number("LookDown"), self._number("LookUp"))
        came_about = env.episode_length_buf % (len(self._turns) + 1) == 0
        return torch.where(came_about, elsewhere, turn_left)

    def _number(self, action: Action) -> int:
        return self._env.cfg.actions.index(action)
