"""Environments of several agents that act together: subclass :class:`DirectMarlEnv`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.envs.batched_env import Step
from envlab.envs.cfg import EnvCfg
from envlab.envs.checks import check_result, unbounded
from envlab.envs.direct_env import DirectEvents
from envlab.envs.noise import NoiseCfg, refuse_bias
from envlab.errors import ConfigurationError

STATE = "state"
"""The state's name among observations by agent; no agent may have it."""


@dataclass(kw_only=True)
class DirectMarlEnvCfg(EnvCfg):
    """Configuration of a :class:`DirectMarlEnv`; a task's own settings are further fields."""

    possible_agents: list[str]
    """Names of the agents, in the order in which their values are joined."""
    observation_spaces: dict[str, int]
    """Size of each agent's observation; checked against what the environment returns."""
    action_spaces: dict[str, int]
    """Size of each agent's action."""
    state_space: int = 0
    """Size of the state that a central critic sees, from :meth:`DirectMarlEnv._get_states`; -1: all
    observations, joined; 0: no state."""
    action_noise_model: dict[str, NoiseCfg] | None = None
    """Noise on agents' actions, before :meth:`DirectMarlEnv._pre_physics_step` sees them."""
    observation_noise_model: dict[str, NoiseCfg] | None = None
    """Noise on agents' observations, and so on a state that joins them."""
    events: Any = None
    """Event terms, as of manager-based tasks; null: none."""


class DirectMarlEnv(DirectEvents):
    """A task of several agents in one simulation, whose values are dictionaries by agent.

    It is PettingZoo's parallel interface over batches, as Isaac Lab's ``DirectMARLEnv``. Override
    ``_pre_physics_step(actions)``, ``_apply_action()``, ``_get_observations()``,
    ``_get_rewards()``, ``_get_dones()`` and ``_reset_envs(mask)``, and ``_get_states()`` where
    ``state_space`` is a size; ``_setup()`` runs once.

    All agents live as long as their environment, which is reset in the step in which the last of
    them has terminated or is truncated; tasks end them together. To train one policy for all of
    them, see :func:`envlab.envs.multi_agent_to_single_agent`.

    Attributes:
        possible_agents: Names of the agents, in the configuration's order.
        observation_spaces: Each agent's space, of one environment.
        action_spaces: Likewise.
        state_space: The state's space, of one environment; None where there is no state.
        obs_buf: The latest observations by agent, and a separate state under ``"state"``.
        actions: The last actions, joined, ``(num_envs, num_actions of all agents)``.
    """

    _has_agents = True
    cfg: DirectMarlEnvCfg
    possible_agents: list[str]
    observation_spaces: dict[str, spaces.Box]
    action_spaces: dict[str, spaces.Box]
    state_space: spaces.Box | None

    @property
    def agents(self) -> list[str]:
        """Names of the agents that are present: always all of them."""
        return list(self.possible_agents)

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return len(self.possible_agents)

    @property
    def max_num_agents(self) -> int:
        """Number of agents, under PettingZoo's other name."""
        return len(self.possible_agents)

    @property
    def state_spaces(self) -> dict[str, spaces.Box | None]:
        """The state's space by agent; they all share it."""
        return dict.fromkeys(self.possible_agents, self.state_space)

    def states(self) -> torch.Tensor | None:
        """Return the state for a central critic, float32 ``(num_envs, dim)``; None without one.

        Isaac Lab calls it ``state()``, which here is the state for an exact resume.
        """
        if self.cfg.state_space > 0:
            return self.obs_buf[STATE]
        return self._join(self.obs_buf) if self.cfg.state_space else None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Reset as :meth:`VectorEnv.reset` does.

        Returns:
            Observations by agent, each ``(num_envs, dim)``, and an empty info.
        """
        super().reset(seed=seed, options=options)
        return self._seen(), {}

    def split_actions(self, actions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return joined actions, ``(num_envs, num_actions of all agents)``, by agent."""
        parts = actions.split([self.cfg.action_spaces[agent] for agent in self.possible_agents], 1)
        return dict(zip(self.possible_agents, parts, strict=True))

    # For subclasses to define ---------------------------------------------------------------------

    def _pre_physics_step(self, actions: dict[str, torch.Tensor]) -> None:
        """Keep the parts of each agent's actions that :meth:`_apply_action` needs."""
        raise NotImplementedError

    def _get_dones(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return terminated and time-outs by agent, each bool ``(num_envs,)``."""
        raise NotImplementedError

    def _get_rewards(self) -> dict[str, torch.Tensor]:
        """Return rewards by agent, each ``(num_envs,)``, of the state before any reset."""
        raise NotImplementedError

    def _get_states(self) -> torch.Tensor:
        """Return the state for a central critic, ``(num_envs, dim)``, without side effects."""
        raise ConfigurationError(
            f"state_space is {self.cfg.state_space}, but {type(self).__name__} has no "
            "_get_states(). Write it, or set state_space to -1 to join all observations."
        )

    # --------------------------------------------------------------------------------------------

    def _num_actions(self) -> int:
        return sum(self.cfg.action_spaces.values())

    def _apply_actions(self, actions: torch.Tensor) -> None:
        by_agent = self.split_actions(actions)
        for agent, noise in (self.cfg.action_noise_model or {}).items():
            stream = self.random.stream(f"action_noise/{agent}")
            by_agent[agent] = noise.apply(by_agent[agent], stream)
        self._pre_physics_step(by_agent)
        if not self.control_each_substep:
            self._apply_action()

    def _sample_observations(self) -> dict[str, torch.Tensor]:
        # Copies, because a task may return views of the simulation's memory.
        observations = {agent: obs.clone() for agent, obs in self._get_observations().items()}
        for agent, noise in (self.cfg.observation_noise_model or {}).items():
            stream = self.random.stream(f"observation_noise/{agent}")
            observations[agent] = noise.apply(observations[agent], stream)
        if self.cfg.state_space > 0:
            observations[STATE] = self._get_states().clone()
        return observations

    def _final_observations(self) -> dict[str, torch.Tensor]:
        final = super()._final_observations()
        if self.cfg.state_space > 0:
            final[STATE] = torch.nan_to_num(self._get_states(), posinf=0.0, neginf=0.0)
        elif self.cfg.state_space:
            final[STATE] = self._join(final)
        return final

    def _check_results(self, terminated: Any, time_outs: Any, reward: Any) -> None:
        for name, values, dtype in (
            ("terminated", terminated, torch.bool),
            ("time-outs", time_outs, torch.bool),
            ("rewards", reward, torch.float32),
        ):
            _require_agents(f"The task's {name}", values, self.possible_agents)
            for agent in self.possible_agents:
                check_result(f"{name} of {agent!r}", values[agent], dtype, self.num_envs)

    def _rows(self, *values: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return [torch.stack([one[agent] for agent in self.possible_agents]) for one in values]

    def _shown(self, step: Step) -> Any:
        _, *rows, info = step
        return self._seen(), *map(self._by_agent, rows), info

    def _by_agent(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the opposite of :meth:`_rows`."""
        return dict(zip(self.possible_agents, rows.unbind(), strict=True))

    def _join(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return all agents' observations side by side."""
        return torch.cat([observations[agent] for agent in self.possible_agents], dim=1)

    def _check_actions(self, actions: Mapping[str, torch.Tensor | np.ndarray]) -> torch.Tensor:
        _require_agents("actions", actions, self.possible_agents)
        parts = []
        for agent in self.possible_agents:
            part = torch.as_tensor(actions[agent], dtype=torch.float32, device=self.device)
            wanted = (self.num_envs, self.cfg.action_spaces[agent])
            if part.shape != wanted:
                raise ConfigurationError(
                    f"actions of {agent!r} have shape {tuple(part.shape)}, but must be {wanted}: "
                    "(num_envs, num_actions)."
                )
            parts.append(part)
        return torch.cat(parts, dim=1).detach()

    def _seen(self) -> dict[str, torch.Tensor]:
        return {agent: self.obs_buf[agent] for agent in self.possible_agents}

    def _make_spaces(self) -> None:
        _check_agents(self.cfg)
        self.possible_agents = list(self.cfg.possible_agents)
        super()._make_spaces()
        self.state_space = self._make_state_space()

    def _make_action_space(self) -> spaces.Space:
        sizes = self.cfg.action_spaces
        self.action_spaces = {agent: unbounded((sizes[agent],)) for agent in self.possible_agents}
        return spaces.Dict(list(self.action_spaces.items()))  # a list keeps its order

    def _make_observation_space(self) -> spaces.Space:
        sizes = self.cfg.observation_spaces
        observations = self._get_observations()
        _require_agents("The task's observations", observations, self.possible_agents)
        for agent, values in observations.items():
            self._check_size(f"observes {agent!r}", values, sizes[agent], "observation_spaces")
        self.observation_spaces = {
            agent: unbounded((sizes[agent],)) for agent in self.possible_agents
        }
        return spaces.Dict(list(self.observation_spaces.items()))

    def _make_state_space(self) -> spaces.Box | None:
        size = self.cfg.state_space
        if size > 0:
            self._check_size("returns states", self._get_states(), size, "state_space")
        if size < 0:
            size = sum(self.cfg.observation_spaces.values())
        return unbounded((size,)) if size else None

    def _check_size(self, what: str, values: torch.Tensor, size: int, field: str) -> None:
        if values.shape != (self.num_envs, size):
            raise ConfigurationError(
                f"The task {what} of shape {tuple(values.shape)}, but its configuration declares "
                f"{size} for each of {self.num_envs} environments. Set {field} to match."
            )


def _check_agents(cfg: DirectMarlEnvCfg) -> None:
    """Refuse agents that not all parts of the configuration name."""
    agents = cfg.possible_agents
    if not agents or len(set(agents)) < len(agents) or STATE in agents:
        raise ConfigurationError(
            f"possible_agents is {agents}, but must hold at least one name, none twice, and not "
            f"{STATE!r}."
        )
    _require_agents("observation_spaces", cfg.observation_spaces, agents)
    _require_agents("action_spaces", cfg.action_spaces, agents)
    for name in ("action_noise_model", "observation_noise_model"):
        for agent, noise in (getattr(cfg, name) or {}).items():
            refuse_bias(noise, f"env.{name}.{agent}")
            if agent not in agents:
                raise ConfigurationError(
                    f"{name} names the agent {agent!r}, but there are {', '.join(agents)}."
                )
    if min(cfg.action_spaces.values()) < 1 or cfg.state_space < -1:
        raise ConfigurationError(
            f"action_spaces is {cfg.action_spaces} and state_space is {cfg.state_space}, but "
            "actions need a size of at least 1, and a state one of at least 1, or 0 or -1."
        )


def _require_agents(what: str, given: Iterable[str], agents: list[str]) -> None:
    if set(given) != set(agents):
        raise ConfigurationError(
            f"{what} must be given for the agents {', '.join(agents)}, but are given for "
            f"{', '.join(given) or 'none'}."
        )
