"""envlab's environments as skrl's agents see them, for one agent and for several.

Both have the same interface: spaces are by agent, and the agent of a single-agent task is called
``agent``. Observations and actions are by agent only if there are several, as skrl's single-agent
and multi-agent algorithms expect.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium
import torch

from envlab.envs import VectorEnv
from envlab.envs.direct_marl_env import STATE
from envlab.envs.masks import merged
from envlab.errors import ConfigurationError, did_you_mean
from envlab.skrl.cfg import OBS_GROUPS


class Spaces(NamedTuple):
    """Spaces of an agent's observations and actions, under the names of skrl's arguments."""

    observation_space: gymnasium.Space[Any]
    state_space: gymnasium.Space[Any] | None
    """Space of the state that only its critic sees, if there is one."""
    action_space: gymnasium.Space[Any]


@dataclass(kw_only=True)
class Transition:
    """A step of this rank's environments.

    The first group is in the arrays of the framework, or by agent if there are several; the second
    is for the loop's ``on_step``.
    """

    rewards: Any
    """``(num_envs, 1)``; the agent may write into it."""
    terminated: Any
    """``(num_envs, 1)``."""
    truncated: Any
    """``(num_envs, 1)``."""
    final_observations: Any
    """Observations after the step and before a reset, ``(num_envs, dim)``."""
    final_states: Any
    """States of the same for a critic, or None."""
    observations: Any
    """Observations to act on next: of the new episode where one ended."""
    states: Any
    """States of the same for a critic, or None."""

    returns: torch.Tensor
    """Summands of an episode's return, ``(num_envs,)``; summed over agents if there are several."""
    ended: torch.Tensor
    """Whether an episode ended, bool ``(num_envs,)``."""
    info: Mapping[str, Any]
    """The environment's info."""


class SkrlEnv(Protocol):
    """The interface of environments for a learner."""

    env: Any
    """The environments themselves."""
    spaces: dict[str, Spaces]

    def observe(self) -> tuple[Any, Any]:
        """Return the current observations and states, without a reset."""

    def advance(self, actions: Any) -> Transition:
        """Make a step."""


class SkrlVectorEnv:
    """A :class:`VectorEnv` whose groups of observations are chosen by ``agent.obs_groups``.

    Several groups are a ``Dict``, from which networks read ``OBSERVATIONS["<group>"]``, and so is a
    group that does not join its terms (``OBSERVATIONS["<term>"]``). skrl stores observations as
    vectors and restores the space's shapes for networks, so everything is flattened and joined
    here, in skrl's order.
    """

    def __init__(
        self,
        env: VectorEnv,
        obs_groups: Mapping[str, list[str]] = OBS_GROUPS,
        *,
        bounded: bool = False,
    ) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            obs_groups: Groups of the ``observations`` and, if the task has them, ``states``.
            bounded: Whether actions without bounds should lie between -1 and 1, see
                :func:`envlab.skrl.checks.needs_bounds`.

        Raises:
            ConfigurationError: If the task lacks a group of the observations.
        """
        self.env = env
        groups, actions = env.single_observation_space, env.single_action_space
        assert isinstance(groups, gymnasium.spaces.Dict)
        if bounded and isinstance(actions, gymnasium.spaces.Box) and not actions.is_bounded():
            actions = gymnasium.spaces.Box(-1.0, 1.0, actions.shape)
        self.pack = ObservationPacker(groups, obs_groups)
        self.spaces = {"agent": Spaces(self.pack.observation_space, self.pack.state_space, actions)}

    def observe(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See :class:`SkrlEnv`."""
        return self.pack(self.env.obs_buf)

    def advance(self, actions: torch.Tensor) -> Transition:
        """See :class:`SkrlEnv`."""
        seen, reward, terminated, truncated, info = self.env.step(actions)
        observations, states = self.pack(seen)
        final = (observations, states)
        if "final_obs" in info:
            final = self.pack(final_values(seen, info))
        return Transition(
            rewards=reward.unsqueeze(1).clone(),  # agents add to it in place
            terminated=terminated.unsqueeze(1),
            truncated=truncated.unsqueeze(1),
            final_observations=final[0],
            final_states=final[1],
            observations=observations,
            states=states,
            returns=reward,
            ended=terminated | truncated,
            info=info,
        )


class ObservationPacker:
    """Chooses groups of observations, and joins those of each of skrl's arguments to vectors.

    Attributes:
        observation_space: Space of the observations.
        state_space: Space of the states; None if the task has none.
    """

    def __init__(self, groups: gymnasium.spaces.Dict, obs_groups: Mapping[str, list[str]]) -> None:
        """See :class:`SkrlVectorEnv`."""
        for name in obs_groups.keys() - OBS_GROUPS.keys():
            raise ConfigurationError(
                f"agent.obs_groups.{name} is {obs_groups[name]}, but skrl has only "
                f"{' and '.join(OBS_GROUPS)}.{did_you_mean(name, OBS_GROUPS)} Leave it out."
            )
        self._observed, self._states = (sorted(set(obs_groups[name])) for name in OBS_GROUPS)
        missing = [name for name in self._observed if name not in groups.spaces]
        if missing or not self._observed:
            raise ConfigurationError(
                f"agent.obs_groups.observations is {obs_groups['observations']}, but the task "
                f"observes {', '.join(groups.spaces)}. Name groups of the task."
            )
        if not all(name in groups.spaces for name in self._states):
            self._states = []  # networks that read them are refused, see envlab.skrl.checks
        self.observation_space = _space_of(groups, self._observed)
        self.state_space = _space_of(groups, self._states) if self._states else None

    def __call__(self, obs: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return observations and states, ``(num_envs, dim)`` each."""
        return joined(obs, self._observed), joined(obs, self._states) if self._states else None


class SkrlMarlEnv:
    """A :class:`envlab.envs.DirectMarlEnv`: everything by agent."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.spaces = {
            agent: Spaces(env.observation_spaces[agent], env.state_space, env.action_spaces[agent])
            for agent in env.possible_agents
        }

    def observe(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor | None]]:
        """See :class:`SkrlEnv`."""
        seen = {agent: self.env.obs_buf[agent] for agent in self.spaces}
        return seen, self._shared(self.env.states())

    def advance(self, actions: dict[str, torch.Tensor]) -> Transition:
        """See :class:`SkrlEnv`."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        state = self.env.states()
        current = obs if state is None else {**obs, STATE: state}
        final = final_values(current, info)
        done = [terminated[agent] | truncated[agent] for agent in self.spaces]
        return Transition(
            rewards={agent: rewards[agent].unsqueeze(1).clone() for agent in rewards},
            terminated={agent: terminated[agent].unsqueeze(1) for agent in rewards},
            truncated={agent: truncated[agent].unsqueeze(1) for agent in rewards},
            final_observations={agent: final[agent] for agent in self.spaces},
            final_states=self._shared(final.get(STATE)),
            observations=obs,
            states=self._shared(state),
            returns=functools.reduce(torch.add, rewards.values()),
            ended=functools.reduce(torch.logical_and, done),
            info=info,
        )

    def _shared(self, state: torch.Tensor | None) -> dict[str, torch.Tensor | None]:
        return dict.fromkeys(self.spaces, state)


def final_values(obs: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """Return observations by group; where an episode ended, those of its last state."""
    if "final_obs" not in info:
        return dict(obs)
    final: dict[str, Any] = merged(
        info["_final_obs"], {name: info["final_obs"][name] for name in obs}, dict(obs)
    )
    return final


def _space_of(groups: gymnasium.spaces.Dict, names: list[str]) -> gymnasium.Space[Any]:
    found = {name: groups[name] for name in names}
    terms = [name for name, space in found.items() if isinstance(space, gymnasium.spaces.Dict)]
    if terms and len(found) > 1:
        raise ConfigurationError(
            f"agent.obs_groups names {', '.join(names)}, of which {terms[0]!r} is a dictionary of "
            "its terms. Let networks read it alone, or set "
            f"env.observations.{terms[0]}.concatenate_terms=true."
        )
    return found[names[0]] if len(found) == 1 else gymnasium.spaces.Dict(found)


def joined(obs: Mapping[str, Any], names: list[str]) -> torch.Tensor:
    """Return groups of observations, or terms of groups, concatenated as float32 vectors."""
    parts = [
        joined(values, sorted(values)) if isinstance(values, Mapping) else values.flatten(1).float()
        for values in (obs[name] for name in names)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
