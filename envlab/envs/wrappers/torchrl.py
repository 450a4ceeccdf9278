"""TorchRL's ``EnvBase`` (0.14).

Its own ``GymWrapper`` splits infos by environment, which does not work for tensors over all.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from tensordict import TensorDict, TensorDictBase
from torchrl.data.tensor_specs import Categorical, Composite, MultiCategorical, Unbounded
from torchrl.envs import EnvBase

from envlab.envs.batched_env import BatchedEnv, Observations
from envlab.envs.masks import merged


class TorchRlEnvWrapper(EnvBase):
    """A :class:`BatchedEnv` with TorchRL's interface: ``num_envs`` is its batch size.

    Observations are under the names of their groups, ``policy`` and ``critic``. When a step ends an
    episode, its next observation is the episode's last; the reset that TorchRL then requests
    returns the first of the new episode, which the environment has already begun.
    """

    def __init__(self, env: BatchedEnv) -> None:
        super().__init__(device=env.device, batch_size=torch.Size([env.num_envs]))
        self._env = env
        self._seed: int | None = None
        self._begun = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        """Environments that are in the first state of an episode."""
        shape = self.batch_size
        self.observation_spec = _spec_of(env.obs_buf, shape).to(env.device)
        self.action_spec = _action_spec(env).to(env.device)
        self.reward_spec = Unbounded(shape=(*shape, 1), device=env.device)
        done = Categorical(2, shape=(*shape, 1), dtype=torch.bool, device=env.device)
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite({name: done.clone() for name in names}, shape=shape)

    def _reset(self, tensordict: TensorDictBase | None = None, **_: object) -> TensorDict:
        asked = None if tensordict is None else tensordict.get("_reset", None)
        if asked is None:
            self._env.reset(seed=self._seed)
            self._seed = None
            self._begun.fill_(True)
        else:
            waiting = asked.view(-1) & ~self._begun
            if bool(waiting.any()):
                self._env.reset(options={"reset_mask": waiting})
            self._begun = self._begun | asked.view(-1)
        return self._packed(self._env.obs_buf)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        obs, reward, terminated, truncated, info = self._env.step(tensordict["action"])
        ended = terminated | truncated
        self._begun = ended
        if "final_obs" in info:
            obs = merged(ended, info["final_obs"], obs)
        packed = self._packed(obs)
        flags = {"done": ended, "terminated": terminated, "truncated": truncated}
        for name, values in ({"reward": reward} | flags).items():
            packed[name] = values.unsqueeze(1).clone()
        return packed

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed

    def close(self, **kwargs: bool) -> None:
        """Close the environment."""
        super().close(**kwargs)
        self._env.close()

    def _packed(self, obs: Observations) -> TensorDict:
        return TensorDict(obs, batch_size=self.batch_size, device=self.device).clone()


def _spec_of(values: Any, shape: torch.Size) -> Composite | Unbounded:
    """Return the specification of tensors, or of dictionaries of them."""
    if isinstance(values, dict):
        return Composite({name: _spec_of(one, shape) for name, one in values.items()}, shape=shape)
    return Unbounded(shape=values.shape)


def _action_spec(env: BatchedEnv) -> Unbounded | Categorical | MultiCategorical:
    space, shape = env.single_action_space, (env.num_envs,)
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), shape=torch.Size(shape))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(space.nvec.tolist(), shape=torch.Size([*shape, len(space.nvec)]))
    return Unbounded(shape=(*shape, *space.shape))  # type: ignore[misc]
