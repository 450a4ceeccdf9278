"""Stable-Baselines3's ``VecEnv`` (2.9): numpy in and out, and an info for each environment."""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn
from torch.utils._pytree import tree_map

from envlab.envs.batched_env import BatchedEnv, Observations


class Sb3VecEnvWrapper(VecEnv):
    """A :class:`BatchedEnv` with Stable-Baselines3's interface, under Isaac Lab's name for it.

    It observes the group ``policy``, and counts returns and lengths of episodes itself, so that no
    ``VecMonitor`` is needed.

    Attributes:
        env: The environment.
        log: The environment's ``info["log"]`` of the last step.
    """

    actions: np.ndarray

    def __init__(self, env: BatchedEnv, clip_actions: float = 100.0) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            clip_actions: Bound of actions that the task leaves unbounded. PPO and A2C hardly ever
                reach 100, which is Isaac Lab's number too; SAC, TD3 and DDPG scale their actions to
                it and want 1.
        """
        self.env = env
        self.log: dict[str, Any] = {}
        groups = env.single_observation_space
        assert isinstance(groups, spaces.Dict)
        actions: gymnasium.Space[Any] = env.single_action_space
        if isinstance(actions, spaces.Box) and not actions.is_bounded():
            actions = spaces.Box(-clip_actions, clip_actions, actions.shape, np.float32)
        self._start = time.time()
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=np.int64)
        super().__init__(env.num_envs, groups["policy"], actions)

    def reset(self) -> Any:
        """Reset all environments: with the seed of :meth:`seed`, if it was called since."""
        obs, _ = self.env.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._returns[:], self._lengths[:] = 0.0, 0
        return _observed(obs)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Make the step.

        Returns:
            Observations, of the new episode where one ended; rewards; dones, both ``(num_envs,)``;
            and a dict for each environment. Where an episode ended, it holds
            ``terminal_observation``, ``TimeLimit.truncated`` and ``episode``.
        """
        obs, reward, terminated, truncated, info = self.env.step(self.actions)
        self.log = info["log"]
        rewards, dones = _numpy(reward), _numpy(terminated | truncated)
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(dones)
        if len(ended):
            final, timed_out = _observed(info["final_obs"]), _numpy(truncated)
            seconds = round(time.time() - self._start, 6)
            for index in ended.tolist():
                episode = {"r": float(self._returns[index]), "l": int(self._lengths[index])}
                row = tree_map(operator.itemgetter(index), final)
                infos[index] = {
                    "terminal_observation": row,
                    "TimeLimit.truncated": bool(timed_out[index]),
                    "episode": {**episode, "t": seconds},
                }
            self._returns[ended], self._lengths[ended] = 0.0, 0
        return _observed(obs), rewards, dones, infos

    def close(self) -> None:
        self.env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a picture of environment 0 only."""
        return [self.env.render()]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the batch, once for each environment."""
        return [getattr(self.env, attr_name)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute for all environments; ``indices`` must not leave some out."""
        self._require_all(indices)
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method once, for all environments; ``indices`` must not leave some out."""
        self._require_all(indices)
        return [getattr(self.env, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return whether each environment has a Gymnasium wrapper: none has."""
        return [False] * len(self._indices(indices))

    def _indices(self, indices: VecEnvIndices) -> list[int]:
        return list(self._get_indices(indices))

    def _require_all(self, indices: VecEnvIndices) -> None:
        if len(self._indices(indices)) < self.num_envs:
            raise ValueError(
                f"Environments {indices} cannot be set alone: all {self.num_envs} are one object. "
                "Leave indices out."
            )


def _numpy(values: torch.Tensor) -> np.ndarray:
    # A copy: the library keeps its values during the next step.
    return values.to("cpu", copy=True).numpy()


def _observed(obs: Observations) -> Any:
    """Return the policy's observations: an array, or one for each term of a dictionary."""
    return tree_map(_numpy, obs["policy"])
