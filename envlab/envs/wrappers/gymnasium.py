"""One environment as a plain ``gymnasium.Env``: numpy, no batch, and no automatic resets."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from envlab.envs.batched_env import BatchedEnv, Observations
from envlab.errors import ConfigurationError


class GymnasiumEnvWrapper(gymnasium.Env[np.ndarray, Any]):
    """A :class:`BatchedEnv` of one environment, for code that does not support batches.

    Gymnasium's ``check_env`` accepts it, as do its wrappers and ``AsyncVectorEnv``. It observes the
    group ``policy``, without the dimension of the batch.
    """

    def __init__(self, env: BatchedEnv) -> None:
        """Wrap an environment, such as ``gymnasium.make(id, num_envs=1)``.

        Raises:
            ConfigurationError: If it is a batch of several.
        """
        if env.num_envs != 1:
            raise ConfigurationError(
                f"The environment is a batch of {env.num_envs}, but only one can be a plain "
                "gymnasium.Env. Make it with num_envs=1."
            )
        groups = env.single_observation_space
        assert isinstance(groups, spaces.Dict)
        self.env = env
        self.observation_space = groups["policy"]
        self.action_space = env.single_action_space
        self.render_mode = env.render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": round(1 / env.step_dt)}
        self._has_begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset the environment.

        After an episode has ended, this returns the start of the new one, which the batch has
        already begun.
        """
        super().reset(seed=seed)
        if seed is not None or not self._has_begun:
            self.env.reset(seed=seed)
        self._has_begun = False
        return _row(self.env.obs_buf), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make a step.

        When it ends an episode, the observation is the episode's last one, and info holds the
        task's ``log`` of the episode.
        """
        obs, reward, terminated, truncated, info = self.env.step(np.asarray(action)[None])
        self._has_begun = bool(terminated | truncated)
        flags = float(reward), bool(terminated), bool(truncated)
        if not self._has_begun:
            return _row(obs), *flags, {}
        log = {name: float(value) for name, value in info["log"].items()}
        return _row(info["final_obs"]), *flags, {"log": log}

    def render(self) -> Any:
        """Return a picture, uint8 ``(height, width, 3)``; None without a ``render_mode``."""
        return self.env.render()

    def close(self) -> None:
        self.env.close()


def _row(obs: Observations) -> np.ndarray:
    return np.array(obs["policy"][0].cpu())
