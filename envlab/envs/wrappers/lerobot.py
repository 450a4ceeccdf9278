"""LeRobot's vector environment (0.6): numpy in its keys, ``agent_pos`` and ``pixels``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from envlab.envs.batched_env import BatchedEnv, Observations
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError

ObsType = Literal["state", "pixels", "pixels_agent_pos"]
"""Kinds of observation, by LeRobot's names: the group ``policy``, a picture, or both."""


class LeRobotVectorEnvWrapper(gymnasium.vector.VectorEnv[Any, np.ndarray, np.ndarray]):
    """A :class:`BatchedEnv` for LeRobot's evaluation, ``lerobot-eval``.

    LeRobot makes ``observation.state`` of ``agent_pos``, ``(num_envs, dim)``, and
    ``observation.image`` of ``pixels``, uint8 ``(num_envs, height, width, 3)``. All environments
    are stepped together, while LeRobot's own are separate objects.

    Attributes:
        env: The environment.
        task: Its id.
        task_description: The task in words, for policies that read them.
        observed: The kind of observation, by LeRobot's name.
    """

    def __init__(
        self,
        env: BatchedEnv,
        *,
        task: str = "",
        task_description: str = "",
        obs_type: ObsType = "state",
        height: int = 360,
        width: int = 640,
    ) -> None:
        """Wrap an environment.

        Raises:
            ConfigurationError: If it does not have the requested observations.
        """
        if obs_type not in get_args(ObsType):
            known = ", ".join(get_args(ObsType))
            raise ConfigurationError(f"obs_type is {obs_type!r}, but must be one of {known}.")
        groups = env.single_observation_space
        assert isinstance(groups, spaces.Dict)
        if len(groups["policy"].shape or ()) != 1 and obs_type != "pixels":
            raise ConfigurationError(
                f"The task observes {groups['policy']}, which is not a vector like LeRobot's "
                "agent_pos. Give obs_type=pixels."
            )
        if obs_type != "state" and not isinstance(env, VectorEnv):
            raise ConfigurationError(
                f"{type(env).__name__} draws no pictures of each environment. Give obs_type=state."
            )
        self.env, self.task, self.task_description = env, task, task_description
        self._sees = obs_type != "state"
        self._feels = obs_type != "pixels"
        self._size = height, width
        self.num_envs = env.num_envs
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": round(1.0 / env.step_dt),
        }
        self.render_mode = env.render_mode
        self.observed: dict[str, spaces.Space[Any]] = {}
        if self._feels:
            self.observed["agent_pos"] = groups["policy"]
        if self._sees:
            self.observed["pixels"] = spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.single_observation_space = spaces.Dict(self.observed)
        self.single_action_space = env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def _max_episode_steps(self) -> int:
        """The time limit, under the name in Gymnasium's wrapper, which LeRobot reads."""
        return self.env.max_episode_length

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Reset all environments.

        Args:
            seed: A base seed, from which each environment derives its own randomness; of a list,
                such as LeRobot's, the first. So a rollout with the same seeds and number of
                environments repeats.
            options: Unused; LeRobot notifies its own environments of a rollout's start by it.
        """
        if isinstance(seed, Sequence):
            seed = seed[0] if seed else None
        obs, _ = self.env.reset(seed=seed)
        # Time limits are a whole episode away, even if the task starts in the middle of one.
        self.env.episode_length_buf = torch.zeros_like(self.env.episode_length_buf)
        return self._observed(obs), {}

    def step(
        self, actions: np.ndarray | torch.Tensor
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make a step; where an episode ends, observations are the first of the new one.

        Of tasks that have a success, info holds ``is_success``, bool ``(num_envs,)``.
        """
        obs, reward, terminated, truncated, info = self.env.step(actions)
        results = (values.cpu().numpy().copy() for values in (reward, terminated, truncated))
        told = {"is_success": info["success"].cpu().numpy() > 0.5} if "success" in info else {}
        return self._observed(obs), *results, told  # type: ignore[return-value]

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute, or the result of a method, once for each environment.

        Raises:
            AttributeError: If there is none of this name.
        """
        if name == "render":
            return tuple(self._pictures())
        value = getattr(self, name)
        return (value(*args, **kwargs) if callable(value) else value,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute once for each environment."""
        return self.call(name)

    def render(self) -> tuple[np.ndarray, ...]:
        """Return a picture of each environment, uint8 ``(height, width, 3)``."""
        return tuple(self._pictures())

    def close_extras(self, **kwargs: Any) -> None:
        self.env.close()

    def _observed(self, obs: Observations) -> dict[str, np.ndarray]:
        observed = {}
        if self._feels:
            observed["agent_pos"] = obs["policy"].cpu().numpy().copy()
        if self._sees:
            observed["pixels"] = self._pictures()
        return observed

    def _pictures(self) -> np.ndarray:
        """Return pictures of all environments, uint8 ``(num_envs, height, width, 3)``."""
        assert isinstance(self.env, VectorEnv)
        height, width = self._size
        pictures = [self.env.picture(i, height=height, width=width) for i in range(self.num_envs)]
        return np.stack(pictures)
