"""skrl's wrapper (2.1), for its own trainers and runner."""

from __future__ import annotations

from typing import Any

import torch
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper
from skrl.envs.wrappers.torch.isaaclab_envs import IsaacLabMultiAgentWrapper, IsaacLabWrapper

from envlab.envs.batched_env import BatchedEnv
from envlab.envs.direct_marl_env import DirectMarlEnv


def SkrlVecEnvWrapper(env: BatchedEnv) -> Wrapper | MultiAgentEnvWrapper:
    """Return an environment of one or several agents for skrl, under Isaac Lab's name for it.

    With one agent, ``skrl.envs.wrappers.torch.wrap_env(env)`` returns the same.
    """
    return _MultiAgentWrapper(env) if isinstance(env, DirectMarlEnv) else IsaacLabWrapper(env)


class _MultiAgentWrapper(IsaacLabMultiAgentWrapper):
    """skrl calls ``state()``, which here is the state for an exact resume."""

    def state(self) -> dict[str, torch.Tensor | None]:
        env: Any = self._unwrapped
        return dict.fromkeys(env.possible_agents, env.states())
