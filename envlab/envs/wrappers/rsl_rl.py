"""rsl_rl's ``VecEnv`` (5.5): for its own ``OnPolicyRunner``, and for envlab's learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from envlab.envs.batched_env import BatchedEnv
from envlab.envs.checks import refuse_dictionaries


class RslRlVecEnvWrapper(VecEnv):
    """A :class:`BatchedEnv` with rsl_rl's interface, under Isaac Lab's name for it."""

    def __init__(self, env: BatchedEnv, clip_actions: float | None = None) -> None:
        """Wrap an environment.

        Args:
            env: The environment, which was reset when it was made.
            clip_actions: Bound of the actions; None: unchanged.

        Raises:
            ConfigurationError: If a group of observations is a dictionary.
        """
        refuse_dictionaries(env.obs_buf, env.obs_buf, "rsl_rl")
        self.env = env
        self.cfg = env.cfg
        self.num_envs = env.num_envs
        self.num_actions = env.actions.shape[1]
        self.max_episode_length = env.max_episode_length
        self.device = env.device
        self._clip_actions = clip_actions

    @property
    def unwrapped(self) -> BatchedEnv:
        """The environment; random network distillation reads its ``step_dt``."""
        return self.env

    @property
    def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, values: torch.Tensor) -> None:
        self.env.episode_length_buf = values

    def get_observations(self) -> TensorDict:
        return self._pack(self.env.obs_buf)

    def reset(self) -> tuple[TensorDict, dict[str, Any]]:
        """Reset all environments; rsl_rl itself never does."""
        obs, info = self.env.reset()
        return self._pack(obs), info

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Make a step.

        Args:
            actions: ``(num_envs, num_actions)``.

        Returns:
            Observations by group, rewards and dones, ``(num_envs,)``; and extras, which hold
            ``time_outs`` and ``log`` for rsl_rl, the environment's ``info``, and where episodes
            ended ``final_obs``.
        """
        if self._clip_actions is not None:
            actions = actions.clamp(-self._clip_actions, self._clip_actions)
        obs, reward, terminated, truncated, info = self.env.step(actions)
        extras = {"time_outs": truncated.float(), "log": info["log"], "info": info}
        if "final_obs" in info:
            extras["final_obs"] = self._pack(info["final_obs"])
        return self._pack(obs), reward, terminated | truncated, extras

    def _pack(self, obs: dict[str, torch.Tensor]) -> TensorDict:
        return pack(obs).to(self.device)


def pack(obs: Mapping[str, torch.Tensor]) -> TensorDict:
    """Return observations in rsl_rl's format, in which an image's channels come first."""
    groups = {
        name: values.permute(0, 3, 1, 2) if values.dim() == 4 else values
        for name, values in obs.items()
    }
    return TensorDict(groups, batch_size=[len(next(iter(groups.values())))])


def unpack(obs: TensorDict) -> dict[str, torch.Tensor]:
    """Return the argument of :func:`pack`."""
    return {
        name: values.permute(0, 2, 3, 1) if values.dim() == 4 else values
        for name, values in obs.items()
    }
