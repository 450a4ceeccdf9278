"""PettingZoo's parallel environments as AgileRL's programs make them, stepped in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.settings import tell


class AsyncPettingZooVecEnv:
    """Environments that are stepped one after the other, and reset when they end.

    Attributes:
        agents: The agents' names.
        num_envs: Environments.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Any]], *_: Any, **__: Any) -> None:
        """Make the environments.

        Raises:
            ConfigurationError: If there is nothing to make.
        """
        if not env_fns or not all(callable(make) for make in env_fns):
            raise ConfigurationError(
                f"AsyncPettingZooVecEnv was given {env_fns!r}, but takes a list of functions that "
                "make an environment each."
            )
        self._take([make() for make in env_fns])
        if len(env_fns) > 1:
            tell("environments are stepped in this process, not in one for each of them")

    def _take(self, envs: list[Any]) -> None:
        self._envs, self.num_envs = envs, len(envs)
        self.agents: list[str] = list(envs[0].possible_agents)
        self.possible_agents, self.metadata = list(self.agents), envs[0].metadata

    @property
    def num_agents(self) -> int:
        """The number of agents."""
        return len(self.agents)

    def single_observation_space(self, agent: str) -> Any:
        """Return what an agent observes in one environment."""
        return self._envs[0].observation_space(agent)

    def single_action_space(self, agent: str) -> Any:
        """Return the actions of an agent in one environment."""
        return self._envs[0].action_space(agent)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Begin episodes in all environments."""
        seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        begun = [
            env.reset(seed=s, options=options) for env, s in zip(self._envs, seeds, strict=True)
        ]
        return self._stacked([obs for obs, _ in begun]), {name: {} for name in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[Any, ...]:
        """Make a step in all environments; ended ones are reset."""
        results = []
        for row, env in enumerate(self._envs):
            taken = {
                name: np.asarray(actions[name][row]).astype(env.action_space(name).dtype)
                for name in env.agents
            }
            obs, *rest, _info = env.step(taken)
            results.append((env.reset()[0] if not env.agents else obs, *rest))
        obs, *rest = zip(*results, strict=True)
        return (
            self._stacked(obs),
            *(self._stacked(part) for part in rest),
            {n: {} for n in self.agents},
        )

    def ended(self, terminated: Mapping[str, Any], truncated: Mapping[str, Any]) -> Any:
        """Return which environments' episodes ended, bool ``(num_envs,)``."""
        return np.all([np.logical_or(terminated[n], truncated[n]) for n in self.agents], axis=0)

    def close(self, **_: Any) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()

    def _stacked(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        missing = [name for row in rows for name in self.agents if name not in row]
        if missing:
            raise ConfigurationError(
                f"The agent {missing[0]} has left its environment before the others, but MADDPG "
                "and MATD3 here need all of them. Train it by envlab train evolution with "
                "--task=gym:envlab_populations.crew:PettingZoo-v0."
            )
        return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in self.agents}


PettingZooVecEnv = AsyncPettingZooVecEnv


class PettingZooVectorizationParallelWrapper(AsyncPettingZooVecEnv):
    """Copies of an environment, as AgileRL 1 makes them; its spaces are those of one."""

    def __init__(self, env: Any, n_envs: int) -> None:
        """Copy an environment."""
        super().__init__([lambda: env, *[lambda: copy.deepcopy(env)] * (n_envs - 1)])

    observation_space = AsyncPettingZooVecEnv.single_observation_space
    action_space = AsyncPettingZooVecEnv.single_action_space


def make_multi_agent_vect_envs(
    env: Callable[..., Any], num_envs: int = 1, **keywords: Any
) -> AsyncPettingZooVecEnv:
    """Return environments of a function that makes one."""
    keywords.pop("should_async_vector", None)
    return AsyncPettingZooVecEnv([lambda: env(**keywords)] * num_envs)


def as_vector(env: Any) -> Any:
    """Return environments, or one PettingZoo environment as if it were several."""
    if hasattr(env, "num_envs"):
        return env
    vector = object.__new__(AsyncPettingZooVecEnv)
    vector._take([env])
    return vector


def summed(rewards: Mapping[str, Any]) -> Any:
    """Return the sum of all agents' rewards, ``(num_envs,)``."""
    return np.sum([np.reshape(np.asarray(value), -1) for value in rewards.values()], axis=0)
