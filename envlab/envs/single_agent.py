"""A multi-agent environment as one agent that moves them all, for libraries that know only one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envlab.distributed.readings import Readings
from envlab.envs.batched_env import BatchedEnv, Observations, Step
from envlab.envs.checks import unbounded
from envlab.envs.direct_marl_env import STATE as COMMON_STATE
from envlab.envs.direct_marl_env import DirectMarlEnv
from envlab.errors import ConfigurationError
from envlab.state import State


def multi_agent_to_single_agent(
    env: DirectMarlEnv, state_as_observation: bool = False
) -> SingleAgentEnv:
    """Return ``env`` as one agent, under Isaac Lab's name for it.

    Args:
        env: The environment; afterwards, step and reset only the returned one.
        state_as_observation: Whether the agent observes the state for a central critic instead of
            all agents' observations.

    Raises:
        ConfigurationError: If there is no such state.
    """
    return SingleAgentEnv(env, state_as_observation)


class SingleAgentEnv(BatchedEnv):
    """All agents of a :class:`DirectMarlEnv` as one.

    The single observation, ``policy``, and the single action join those of the agents, in the order
    of ``possible_agents``; the reward is their sum. An episode is terminated if all agents are, and
    truncated if they are done otherwise. All other attributes are those of the inner environment.

    Attributes:
        env: The inner environment.
    """

    STATE = State(wraps="env")

    def __init__(self, env: DirectMarlEnv, state_as_observation: bool = False) -> None:
        """See :func:`multi_agent_to_single_agent`."""
        if state_as_observation and env.state_space is None:
            raise ConfigurationError(
                "The state cannot be the observation, because state_space is 0. Set it to -1 to "
                "join all observations, or leave state_as_observation out."
            )
        self.env = env
        # A state of -1 joins the observations too.
        has_own_state = state_as_observation and env.cfg.state_space > 0
        self._groups = [COMMON_STATE] if has_own_state else env.possible_agents
        super().__init__(
            env.cfg,
            context=env.context,
            num_envs=env.num_envs,
            seed=env.random.base_seed,
            render_mode=env.render_mode,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # it is not there yet
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def step_dt(self) -> float:
        return self.env.step_dt

    @property
    def max_episode_length(self) -> int:
        return self.env.max_episode_length

    @property
    def log_dir(self) -> Path | None:
        """Where to save the states of failed environments; null: the temporary directory."""
        return self.env.log_dir

    @log_dir.setter
    def log_dir(self, directory: Path | None) -> None:
        self.env.log_dir = directory

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        self._observe()
        return self.obs_buf, info

    def step(self, actions: torch.Tensor | np.ndarray) -> Step:  # type: ignore[override]
        by_agent = self.env.split_actions(self._check_actions(actions))
        _, rewards, terminations, truncations, info = self.env.step(by_agent)
        terminated = functools.reduce(torch.logical_and, terminations.values())
        done = [terminations[agent] | truncations[agent] for agent in rewards]
        truncated = functools.reduce(torch.logical_and, done) > terminated  # and not terminated
        if "final_obs" in info:
            info["final_obs"] = self._merge(info["final_obs"])
        self._observe()
        reward = functools.reduce(torch.add, rewards.values())
        return self.obs_buf, reward, terminated, truncated, info

    def joint_positions(self) -> dict[str, torch.Tensor]:
        return self.env.joint_positions()

    def check_health(self) -> None:
        self.env.check_health()

    def ask_health(self, readings: Readings) -> None:
        self.env.ask_health(readings)

    def on_restore(self) -> None:
        super().on_restore()
        self._observe()

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        return self.env.render()

    def close(self, **kwargs: Any) -> None:
        self.env.close(**kwargs)

    def _find_device(self) -> torch.device:
        return self.env.device

    def _build(self) -> None:
        env = self.env
        self.repeats_exactly = env.repeats_exactly
        self.spec, self.random, self._episode_length = env.spec, env.random, env.episode_length_buf
        self._observe()
        observed = unbounded(self.obs_buf["policy"].shape[1:])
        self.single_observation_space = spaces.Dict({"policy": observed})
        self.single_action_space = unbounded(env.actions.shape[1:])
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def _observe(self) -> None:
        self.common_step_counter = self.env.common_step_counter
        self.obs_buf = self._merge(self.env.obs_buf)

    def _merge(self, observations: Mapping[str, torch.Tensor]) -> Observations:
        return {"policy": torch.cat([observations[name] for name in self._groups], dim=1)}
