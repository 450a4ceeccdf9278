"""A parallel environment like PettingZoo's: two agents on a line must each find a place."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

STEPS = 5


class Meeting:
    """``left`` should go to a place, ``right`` to its mirror image; both observe the place."""

    possible_agents = ("left", "right")
    metadata = {"render_modes": []}

    def __init__(self, leaves_first: bool = False) -> None:
        self._leaves_first = leaves_first
        self._rng: Any = None
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (1 if agent == "left" else 2,), np.float32)

    def action_space(self, agent: str) -> spaces.Box:
        return spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(seed)
        self.agents, self._steps = list(self.possible_agents), 0
        self._place = self._rng.uniform(-1.0, 1.0)
        return self._seen(), {name: {} for name in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        acting, wanted = self.agents, {"left": self._place, "right": -self._place}
        rewards = {name: -((float(actions[name][0]) - wanted[name]) ** 2) for name in acting}
        self._steps += 1
        gone = {name: self._leaves_first and name == "left" for name in acting}
        is_over = self._steps == STEPS
        self.agents = [name for name in acting if not gone[name] and not is_over]
        truncated = dict.fromkeys(acting, is_over)
        return self._seen(acting), rewards, gone, truncated, {name: {} for name in acting}

    def close(self) -> None:
        """Nothing to close."""

    def _seen(self, names: Any = None) -> dict[str, Any]:
        numbers = {"left": [self._place], "right": [self._place, 0.5]}
        return {name: np.array(numbers[name], np.float32) for name in names or self.agents}


class Choosing(Meeting):
    """The same with choices, as PettingZoo's simple environments have them by default."""

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)


def parallel_env(render_mode: str | None = None, choices: bool = False, **options: Any) -> Meeting:
    return Choosing(**options) if choices else Meeting(**options)
