"""A :class:`BatchedEnv` as rsl_rl wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from envlab.envs import BatchedEnv


class RslRlVecEnv(VecEnv):
    """A :class:`BatchedEnv` as rsl_rl wants it."""

    def __init__(self, env: BatchedEnv, clip_actions: float | None = None) -> None:
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

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        if self._clip_actions is not None:
            actions = actions.clamp(-self._clip_actions, self._clip_actions)
        obs, reward, terminated, truncated, info = self.env.step(actions)
        extras: dict[str, Any] = {"time_outs": truncated.float(), "info": info}
        if "final_obs" in info:
            extras["final_obs"] = self._pack(info["final_obs"])
        return self._pack(obs), reward, terminated | truncated, extras

    def _pack(self, obs: dict[str, torch.Tensor]) -> TensorDict:
        return pack(obs).to(self.device)


def pack(obs: Mapping[str, torch.Tensor]) -> TensorDict:
    """Return observations as rsl_rl has them: an image's channels come before height and width."""
    groups = {
        name: values.permute(0, 3, 1, 2) if values.dim() == 4 else values
        for name, values in obs.items()
    }
    return TensorDict(groups, batch_size=[len(next(iter(groups.values())))])
