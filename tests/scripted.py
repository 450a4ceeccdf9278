"""An environment whose every number is written down, for tests that compute by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from gymnasium import spaces

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv, EnvCfg
from envlab.envs.batched_env import Log, Observations
from envlab.envs.discrete import DiscreteCfg

GOES_ON, TERMINATED, TIME_LIMIT = 0, 1, 2
"""Effect of a step on an episode."""


class ScriptedEnv(BatchedEnv):
    """A reward of 1 in each step, and observations and ends by a script.

    Args:
        observed: The observation after each number of steps, the initial one first.
        ends: Effect of each step on each environment's episode, ``(num_steps, num_envs)``; all
            episodes continue after the last.
        begun: The first observation of a new episode.
        space: Of the actions, which have no effect.
        num_obs: Size of an observation, whose further numbers are 0.
    """

    def __init__(
        self,
        observed: Sequence[float] = (0.0,),
        ends: Sequence[Sequence[int]] = (),
        *,
        begun: float = 0.0,
        num_envs: int = 3,
        space: spaces.Space | None = None,
        num_obs: int = 1,
    ) -> None:
        self._observed, self._begun, self._num_obs = observed, begun, num_obs
        self._ends = torch.tensor(ends).reshape(len(ends), num_envs)
        self._space = spaces.Box(-np.inf, np.inf, (1,), np.float32) if space is None else space
        context = DistributedContext.single("cpu")
        cfg = merge(EnvCfg(), {"scene": {"num_envs": num_envs}, "seed": 0}, "env")
        super().__init__(cfg, context=context)

    @property
    def step_dt(self) -> float:
        return 1.0

    @property
    def max_episode_length(self) -> int:
        return 1000

    def _build(self) -> None:
        self._now = torch.full((self.num_envs,), float(self._observed[0]))
        self._happens = torch.zeros(self.num_envs, dtype=torch.int64)
        self._make_spaces()
        self._observe()

    def _num_actions(self) -> int:
        is_choice = isinstance(self._space, spaces.Discrete)
        return int(self._space.n) if is_choice else self._space.shape[0]

    def _choices(self) -> DiscreteCfg | None:
        return None

    def _make_action_space(self) -> spaces.Space:
        return self._space

    def _check_actions(self, actions: torch.Tensor | np.ndarray) -> torch.Tensor:
        return torch.as_tensor(actions)

    def _apply_actions(self, actions: torch.Tensor) -> None:
        step = self.common_step_counter
        self._now.fill_(self._observed[min(step, len(self._observed) - 1)])
        self._happens.zero_()
        if step <= len(self._ends):
            self._happens.copy_(self._ends[step - 1])

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._happens == TERMINATED, self._happens == TIME_LIMIT

    def _get_rewards(self) -> torch.Tensor:
        return torch.ones(self.num_envs)

    def _reset_masked(self, mask: torch.Tensor, count: torch.Tensor | int) -> Log:
        self._now[mask] = self._begun
        self._clear_lengths(mask)
        return {}

    def _get_observations(self) -> Observations:
        padded = torch.zeros(self.num_envs, self._num_obs)
        padded[:, 0] = self._now
        return {"policy": padded}
