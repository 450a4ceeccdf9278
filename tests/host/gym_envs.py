"""Gymnasium environments with predictable results; worker processes import them too."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env[Any, Any]):
    """Counts its steps: the observation is (steps of this episode, the last action's first number).

    It ends at ``ends_at`` steps; its reward is the count. At ``breaks_at`` steps it does ``how``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space: spaces.Space[Any] = spaces.Box(
        np.array([[-1.0], [-2.0]], np.float32), np.array([[1.0], [2.0]], np.float32)
    )

    def __init__(
        self, ends_at: int = 3, breaks_at: int = 0, how: str = "", render_mode: str | None = None
    ) -> None:
        self.ends_at, self.breaks_at, self.how = ends_at, breaks_at, how
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.array([0.0, 0.0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.count += 1
        observation, reward = np.array([self.count, np.ravel(action)[-1]]), float(self.count)
        if self.count == self.breaks_at:
            self._break(observation)
        info = {"count": self.count, "name": "not a number", "is_success": True}
        return observation, reward, self.count == self.ends_at, False, info

    def render(self) -> Any:
        return np.full((7, 9, 3), self.count, np.uint8)

    def _break(self, observation: np.ndarray) -> None:
        if self.how == "raise":
            raise ValueError("the motor burns")
        if self.how == "exit":
            os._exit(3)
        if self.how == "hang":
            time.sleep(60.0)
        observation[0] = np.nan


class Choosing(Counting):
    """The same with a choice that counts from 5."""

    action_space = spaces.Discrete(3, start=5)


class ChoosingTwice(Counting):
    """The same with two choices."""

    action_space = spaces.MultiDiscrete([2, 4])


class Strange(Counting):
    """The same with actions that no library supports."""

    action_space = spaces.Dict({"push": spaces.Discrete(2)})


class Picture(Counting):
    """The same, but it observes an image of 4 by 6 with its 3 channels first."""

    observation_space = spaces.Box(0, 255, (3, 4, 6), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._picture(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._picture(), *super().step(action)[1:]

    def _picture(self) -> np.ndarray:
        return np.broadcast_to(np.array([0, 51, 255], np.uint8)[:, None, None], (3, 4, 6)).copy()


def _register(name: str, **kwargs: Any) -> None:
    if f"{name}-v0" not in gymnasium.registry:
        gymnasium.register(id=f"{name}-v0", entry_point=f"{__name__}:{name}", **kwargs)


_register("Counting", max_episode_steps=10)
for _name in ("Choosing", "ChoosingTwice", "Strange", "Picture"):
    _register(_name)
