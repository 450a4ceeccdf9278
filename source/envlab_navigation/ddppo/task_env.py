"""One of AllenAct's task samplers as an environment: a task is an episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from envlab.errors import ConfigurationError


class TaskSamplerEnv(gymnasium.Env[Any, Any]):
    """One sampler's tasks, one after the other.

    A task that reached its ``max_steps``, but no terminal state, is truncated. The numbers of its
    ``metrics()`` are logged. A sampler without further tasks is reset.
    """

    def __init__(self, sampler: Any) -> None:
        """Read the spaces of the first task.

        Args:
            sampler: With AllenAct's ``next_task``, ``reset``, ``set_seed`` and ``close``.

        Raises:
            ConfigurationError: If it has no task, or one with spaces that are not known here.
        """
        self._sampler = sampler
        self._task = self._next_task()
        self.observation_space = self._observed()
        self.action_space = self._acted()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the next task; a seed restarts the sampler's random streams."""
        if seed is not None:
            self._sampler.set_seed(seed)
            self._sampler.reset()
        self._task = self._next_task()
        return self._task.get_observations(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take an action in the task."""
        result = self._task.step(action)
        if not result.done:
            return result.observation, float(result.reward), False, False, {}
        truncated = self._task.reached_max_steps() and not self._task.reached_terminal_state()
        info = dict(self._task.metrics())
        # AllenAct's tasks may observe nothing once they are done.
        seen = result.observation or self._task.get_observations()
        return seen, float(result.reward), not truncated, truncated, info

    def render(self) -> Any:
        """Return the task's own picture."""
        return self._task.render("rgb")

    def close(self) -> None:
        """Close the sampler."""
        self._sampler.close()

    def _observed(self) -> spaces.Dict:
        """Return the observation space of the task's sensors."""
        sensors = self._task.observation_space.spaces
        return spaces.Dict(
            {name: _known(space, f"The sensor {name!r}") for name, space in sensors.items()}
        )

    def _acted(self) -> spaces.Space[Any]:
        """Return the space of the task's actions."""
        return _known(self._task.action_space, "The action")

    def _next_task(self) -> Any:
        task = self._sampler.next_task()
        if task is None:
            self._sampler.reset()
            task = self._sampler.next_task()
        if task is None:
            raise ConfigurationError(
                f"{type(self._sampler).__name__} has no tasks: next_task() is None after a reset. "
                "Check the experiment's task_sampler_args."
            )
        return task


def _known(space: Any, what: str) -> spaces.Space[Any]:
    """Return a space of Gym, AllenAct's, or of Gymnasium as Gymnasium's."""
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "Box":
        low, high = (
            np.broadcast_to(space.low, space.shape),
            np.broadcast_to(space.high, space.shape),
        )
        return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)
    raise ConfigurationError(
        f"{what} of the experiment's task is a {kind}, but must be a Box or Discrete. Leave it out "
        "of the sensors, or have it return numbers."
    )
