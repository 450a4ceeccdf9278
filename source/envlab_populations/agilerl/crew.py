"""AgileRL's agents of several policies: crews that act and learn when a program asks.

Within, a crew's observations and actions are rows, see :mod:`envlab_populations.crew`; programs
give and get dictionaries by agent, of ``(num_envs, dim)`` or, for one environment, ``(dim,)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.agent import DDPG
from envlab_populations.agilerl.parallel import as_vector, summed
from envlab_populations.crew import CrewSpace


class MADDPG(DDPG):
    """MADDPG, whose actions are those that the environment takes."""

    algorithm = "maddpg"
    discrete_actions = False
    """Agents act by numbers."""

    def __init__(
        self,
        observation_spaces: Any,
        action_spaces: Any,
        *older: Any,
        agent_ids: Sequence[str] | None = None,
        **named: Any,
    ) -> None:
        """Make a crew with fresh weights, of lists or dictionaries of spaces.

        Raises:
            ConfigurationError: If spaces, names or numbers do not fit.
        """
        names = _names(observation_spaces, action_spaces, agent_ids)
        if older or not names:
            raise ConfigurationError(
                f"{type(self).__name__} takes observation_spaces and action_spaces, a list or a "
                "dictionary of Gymnasium's spaces each, and all other arguments by name. The "
                "dimensions of AgileRL 0.1 go to initialPopulation."
            )
        seen, acted = (_by_name(s, names) for s in (observation_spaces, action_spaces))
        super().__init__(*CrewSpace.of(seen, acted), **named)

    @property
    def crew(self) -> CrewSpace:
        """The space of the rows."""
        assert isinstance(self.observation_space, CrewSpace)
        return self.observation_space

    @property
    def agent_ids(self) -> list[str]:
        """The agents' names."""
        return list(self.crew.observed)

    def get_action(  # type: ignore[override]
        self, obs: Any = None, infos: Any = None, *_: Any, states: Any = None, **__: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return actions by agent, ``(num_envs, dim)``, with noise in training; the same twice.

        Args:
            obs: Observations by agent.
            infos: Has no effect.
            states: Their name until AgileRL 2.2.
        """
        actions = self._apart(super().get_action(self._row({}, states if obs is None else obs)))
        return actions, dict(actions)

    def getAction(self, obs: Mapping[str, Any], epsilon: float = 0.0) -> dict[str, Any]:  # type: ignore[override]
        """Return actions by agent as in 0.1; with noise where epsilon is above 0."""
        actions = self._apart(super().get_action(self._row({}, obs), epsilon > 0))
        first, size = next(iter(self.crew.observed.items()))
        is_one = np.size(obs[first]) == size and np.ndim(obs[first]) < 2
        return {name: part[0] for name, part in actions.items()} if is_one else actions

    def learn(self, experiences: Any, *_: Any, **__: Any) -> Any:
        """Make a gradient step on a batch, and return losses of actors and critics by agent."""
        if isinstance(experiences, Mapping):
            parts = [experiences[name] for name in ("obs", "action", "reward", "next_obs", "done")]
        else:
            parts = list(experiences[:5])
        obs, action, reward, following, done = parts
        ends = np.stack([np.reshape(_array(done[name]), -1) for name in self.agent_ids], 1)
        acted = [np.reshape(_array(action[name]), (len(ends), -1)) for name in self.agent_ids]
        earned = {name: np.nan_to_num(_array(reward[name])) for name in self.agent_ids}
        super().learn(
            {
                "obs": self._row({}, obs),
                "action": np.concatenate(acted, 1).astype(np.float32),
                "reward": summed(earned),
                "next_obs": self._row(earned, following),
                "done": np.nan_to_num(ends.astype(np.float32), nan=1.0).all(1),
            }
        )
        return dict.fromkeys(self.agent_ids, self._last)

    def _loss(self) -> tuple[float | None, float]:
        self._last = super()._loss()
        return self._last

    def test(self, env: Any, *arguments: Any, **named: Any) -> float:
        """Return the mean return of episodes, over agents a sum; see :meth:`Agent.test`."""
        return super().test(as_vector(env), *arguments, **named)

    @torch.no_grad()
    def _episode(self, env: Any, policy: Any, max_steps: int | None) -> float:
        obs, _ = env.reset()
        scores, is_over = np.zeros(env.num_envs), np.zeros(env.num_envs, dtype=bool)
        steps = 0
        while not is_over.all() and (max_steps is None or steps < max_steps):
            row = self.seeing(self._row({}, obs), self.device)
            step = env.step(self._apart(policy(row).cpu().numpy()))
            obs, reward, terminated, truncated, _ = step
            scores += np.where(is_over, 0.0, summed(reward))
            is_over |= env.ended(terminated, truncated)
            steps += 1
        return float(scores.mean())

    def _row(self, earned: Mapping[str, Any], obs: Mapping[str, Any]) -> Any:
        """Return rows, ``(num_envs, dim)``, of agents' rewards and observations."""
        missing = [name for name in self.crew.observed if name not in obs]
        if missing:
            raise ConfigurationError(
                f"The observations have no {missing[0]}, but {', '.join(obs) or 'nothing'}: agents "
                "that come and go are not for MADDPG and MATD3 here. Give all agents'."
            )
        seen = [_array(obs[name]).reshape(-1, size) for name, size in self.crew.observed.items()]
        count = len(seen[0])
        rewards = [
            np.reshape(earned[name], (count, 1)) if earned else np.zeros((count, 1))
            for name in self.crew.observed
        ]
        return np.concatenate([*rewards, *seen], 1).astype(np.float32)

    def _apart(self, actions: Any) -> dict[str, Any]:
        ends = np.cumsum(list(self.crew.acted.values()))[:-1]
        return dict(zip(self.crew.acted, np.split(np.asarray(actions), ends, axis=1), strict=True))


class MATD3(MADDPG):
    """MATD3."""

    algorithm = "matd3"


def crew_spaces(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the spaces of ``create_population``'s arguments: lists, or the dimensions of 0.1.

    Raises:
        ConfigurationError: If agents of 0.1 choose among discrete actions, or see choices.
    """
    if "state_dim" not in given:
        return given.get("observation_space"), given.get("action_space")
    hp, shapes = given.get("INIT_HP") or {}, given["state_dim"]
    if given.get("one_hot") or hp.get("DISCRETE_ACTIONS"):
        raise ConfigurationError(
            "The agents see or choose among discrete things (one_hot, DISCRETE_ACTIONS), but "
            "MADDPG and MATD3 here see and act by numbers. Make the environment with "
            "continuous_actions=True."
        )
    seen = [spaces.Box(-np.inf, np.inf, tuple(shape), np.float32) for shape in shapes]
    low, high = (
        [np.asarray(one, np.float32) for one in hp[f"{end}_ACTION"]] for end in ("MIN", "MAX")
    )
    return seen, [spaces.Box(a, b) for a, b in zip(low, high, strict=True)]


def _names(seen: Any, acted: Any, agent_ids: Iterable[str] | None) -> list[str]:
    """Return the agents' names; none if the spaces are not several."""
    groups = [list(_plain(space).values()) for space in (seen, acted)]
    is_several = all(group and all(isinstance(s, spaces.Space) for s in group) for group in groups)
    if not is_several or len(groups[0]) != len(groups[1]):
        return []
    if agent_ids is None:
        return [str(name) for name in _plain(seen)]
    names = list(agent_ids)
    if len(names) != len(groups[0]):
        raise ConfigurationError(
            f"agent_ids are {', '.join(names)}, but there are {len(groups[0])} observation spaces. "
            "Name each agent once."
        )
    return names


def _plain(values: Any) -> dict[str, Any]:
    if isinstance(values, (list, tuple)):
        return {f"agent_{place}": one for place, one in enumerate(values)}
    if isinstance(values, spaces.Dict):
        return dict(values.spaces)
    return dict(values) if isinstance(values, Mapping) else {}


def _by_name(values: Any, names: list[str]) -> dict[str, Any]:
    return dict(zip(names, _plain(values).values(), strict=True))


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
