"""A small environment of images: the screen is bright or dark, and the action must name which."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Pixels(gymnasium.Env[np.ndarray, int]):
    """Rewards the action that names the screen; an episode has ten steps."""

    observation_space = spaces.Box(0, 255, (4, 12, 12), np.uint8)  # channels first, as Atari's
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(**options)
        self._left = 10
        return self._draw(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        reward = float(action == self._is_bright)
        return self._draw(), reward, self._left == 0, False, {}

    def _draw(self) -> np.ndarray:
        self._is_bright = int(self.np_random.integers(2))
        noise = self.np_random.integers(0, 50, (4, 12, 12))
        return (noise + 200 * self._is_bright).astype(np.uint8)


gymnasium.register("Pixels-v0", entry_point=Pixels)
