"""Several agents as one: PettingZoo's parallel environments as ``gym:...crew:PettingZoo-v0``.

    --task=gym:envlab_populations.crew:PettingZoo-v0 env.kwargs.environment=mpe2.simple_spread_v3

The agents' observations and actions form one row each, so that workers, replay memories and
populations treat them as those of one agent. Only MADDPG and MATD3 use the parts of a row. Each
agent's last reward comes first in the observations, since it has no other way from a worker to a
critic; networks do not see it.

Nothing here imports torch, so that a worker process starts quickly.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from envlab.errors import ConfigurationError

MODULE, ENV_ID = "envlab_populations.crew", "PettingZoo-v0"
"""The module that registers the environment, and its id: ``--task=gym:<module>:<id>``."""
PACKAGES = frozenset({"pettingzoo", "mpe2"})
"""Packages whose environments a file may name."""
INSTALL = "pip install -c constraints.txt -e '.[pettingzoo]'"


class CrewSpace(spaces.Box):
    """Several agents' observations in a row: each one's reward, then each one's observation.

    Attributes:
        observed: Numbers that each agent observes, by name.
        acted: Numbers that each agent acts by.
    """

    def __init__(self, observed: Mapping[str, int], acted: Mapping[str, int]) -> None:
        self.observed, self.acted = dict(observed), dict(acted)
        size = len(self.observed) + sum(self.observed.values())
        super().__init__(-np.inf, np.inf, (size,), np.float32)

    def __eq__(self, other: object) -> bool:
        is_alike = isinstance(other, CrewSpace) and other.observed == self.observed
        return is_alike and other.acted == self.acted  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls, observed: Mapping[str, spaces.Space[Any]], acted: Mapping[str, spaces.Space[Any]]
    ) -> tuple[CrewSpace, spaces.Box]:
        """Return the spaces of all agents together, from each agent's own.

        Raises:
            ConfigurationError: If an agent does not act by numbers, or observes no fixed size.
        """
        sizes = {}
        for name, space in observed.items():
            flat = spaces.flatten_space(space) if space.is_np_flattenable else None
            if not isinstance(flat, spaces.Box):
                raise ConfigurationError(
                    f"The agent {name} observes {space}, which has no fixed size. Wrap the "
                    "environment so that it observes a Box."
                )
            sizes[name] = int(flat.shape[0])
        for name, space in acted.items():
            if not isinstance(space, spaces.Box) or not space.is_bounded():
                raise ConfigurationError(
                    f"The agent {name} acts by {space}, but MADDPG and MATD3 here take a Box with "
                    "bounds. Make the environment with continuous_actions=True, if it has that."
                )
        boxes: list[Any] = list(acted.values())
        low, high = (
            np.concatenate([getattr(box, end).reshape(-1) for box in boxes]).astype(np.float32)
            for end in ("low", "high")
        )
        counts = {name: int(np.prod(box.shape)) for name, box in acted.items()}  # type: ignore[arg-type]
        return cls(sizes, counts), spaces.Box(low, high)


class CrewEnv(gymnasium.Env):
    """A parallel environment of PettingZoo's, whose agents act simultaneously.

    The reward is the sum of the agents' rewards. An episode ends when no agent is left; an agent
    that has left earlier observes zeros and gets no reward.
    """

    MODULE_KEYWORDS: ClassVar[Mapping[str, frozenset[str]]] = {"environment": PACKAGES}
    """Keywords that name modules; see :meth:`envlab.host.tasks.GymTask.modules_of`."""

    def __init__(
        self,
        environment: str = "mpe2.simple_spread_v3",
        options: dict[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make an environment.

        Args:
            environment: A module that has ``parallel_env``.
            options: Keywords of ``parallel_env``.
            render_mode: None or ``rgb_array``.

        Raises:
            ConfigurationError: If there is no such module, or its agents do not act by numbers.
        """
        self._env = parallel_env(environment, dict(options or {}) | {"render_mode": render_mode})
        self.render_mode = render_mode
        self.metadata = dict(self._env.metadata)
        self._names: list[str] = list(self._env.possible_agents)
        self._observed = {name: self._env.observation_space(name) for name in self._names}
        self._acted = {name: self._env.action_space(name) for name in self._names}
        self.observation_space, self.action_space = CrewSpace.of(self._observed, self._acted)
        self._ends = np.cumsum(list(self.observation_space.acted.values()))[:-1]
        self._returns = np.zeros(len(self._names))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observations, _ = self._env.reset(seed=seed, options=options)
        self._returns[:] = 0.0
        return self._row({}, observations), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Have all remaining agents act."""
        parts = dict(zip(self._names, np.split(np.asarray(action), self._ends), strict=True))
        acting = list(self._env.agents)
        observations, rewards, terminated, _, _ = self._env.step(
            {
                name: parts[name].reshape(self._acted[name].shape).astype(self._acted[name].dtype)
                for name in acting
            }
        )
        self._returns += [float(rewards.get(name, 0.0)) for name in self._names]
        is_over = not self._env.agents
        is_end = is_over and all(terminated.get(name, False) for name in acting)
        info = dict(zip((f"return_{name}" for name in self._names), self._returns, strict=True))
        reward = float(sum(rewards.values()))
        row = self._row(rewards, observations)
        return row, reward, is_end, is_over and not is_end, info if is_over else {}

    def render(self) -> Any:
        """Return a picture."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _row(self, rewards: Mapping[str, Any], observations: Mapping[str, Any]) -> Any:
        sizes = self.observation_space.observed  # type: ignore[attr-defined]
        parts = [
            spaces.flatten(self._observed[name], observations[name])
            if name in observations
            else np.zeros(sizes[name])
            for name in self._names
        ]
        earned = [float(rewards.get(name, 0.0)) for name in self._names]
        return np.concatenate([earned, *parts]).astype(np.float32)


def parallel_env(environment: str, options: Mapping[str, Any]) -> Any:
    """Return a parallel environment of PettingZoo's, with continuous actions where it has them.

    Raises:
        ConfigurationError: If there is no such module, or it refuses the keywords.
    """
    for old, new in {"pettingzoo.mpe": "mpe2"}.items():  # moved in PettingZoo 1.25
        environment = environment.replace(f"{old}.", f"{new}.")
    try:
        module = importlib.import_module(environment)
    except ImportError as error:
        raise ConfigurationError(
            f"The environment {environment!r} cannot be imported ({str(error).splitlines()[0]}). "
            "Name a module with parallel_env, such as mpe2.simple_spread_v3, and install it: "
            f"{INSTALL}"
        ) from error
    if not hasattr(module, "parallel_env"):
        raise ConfigurationError(
            f"The module {environment!r} has no parallel_env, by which PettingZoo's environments "
            "are made. Name a module with it, such as mpe2.simple_spread_v3."
        )
    given = dict(options)
    known = inspect.signature(module.raw_env).parameters if hasattr(module, "raw_env") else {}
    if "continuous_actions" in known:
        given.setdefault("continuous_actions", True)
    try:
        return module.parallel_env(**given)
    except Exception as error:
        raise ConfigurationError(
            f"{environment} cannot be made with {given} ({type(error).__name__}: {error}). Correct "
            "env.kwargs.options."
        ) from error


if ENV_ID not in gymnasium.registry:
    gymnasium.register(ENV_ID, entry_point=f"{__name__}:CrewEnv")
