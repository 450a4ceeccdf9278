"""``gym`` 0.17 for AllenAct, gym-minigrid and BabyAI, on Gymnasium.

Gym has had no release since 2022 and does not run with NumPy 2. These packages use its spaces,
``Env``, ``Wrapper``, ``make``, ``register`` and ``utils.seeding``. Steps return four
values, ``reset`` one, and ``seed`` is a method, as in 0.17.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

HEIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "BipedalWalker-v2": ("BipedalWalker-v3", {}),
    "BipedalWalkerHardcore-v2": ("BipedalWalkerHardcore-v3", {}),
    "CarRacing-v0": ("CarRacing-v3", {}),
    "LunarLander-v2": ("LunarLander-v3", {}),
    "LunarLanderContinuous-v2": ("LunarLanderContinuous-v3", {}),
    # Version 2 observed contact forces, which version 4 leaves out by default.
    "Ant-v2": ("Ant-v4", {"use_contact_forces": True}),
    **{
        f"{name}-v2": (f"{name}-v4", {})
        for name in (
            "HalfCheetah",
            "Hopper",
            "Humanoid",
            "HumanoidStandup",
            "InvertedDoublePendulum",
            "InvertedPendulum",
            "Reacher",
            "Swimmer",
            "Walker2d",
        )
    },
}
"""Ids of Gym 0.17 that Gymnasium has removed, and its equivalents."""


@dataclass
class Spec:
    """The registration of an id."""

    id: str
    entry_point: Any = None
    max_episode_steps: int | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


_SPECS: dict[str, Spec] = {}


def register(id: str, entry_point: Any = None, **kwargs: Any) -> None:
    """Register an environment; Gym's other arguments have no effect here."""
    limit, given = kwargs.get("max_episode_steps"), kwargs.get("kwargs") or {}
    _SPECS[id] = Spec(id, entry_point, limit, dict(given))


def make(id: str, **kwargs: Any) -> Any:
    """Return an environment that was registered here, or Gymnasium's with Gym's methods.

    Raises:
        gymnasium.error.Error: If there is none of this id.
    """
    if id in _SPECS:
        spec = _SPECS[id]
        entry_point = spec.entry_point
        if isinstance(entry_point, str):
            module, _, name = entry_point.partition(":")
            entry_point = getattr(importlib.import_module(module), name)
        env = entry_point(**{**spec.kwargs, **kwargs})
        env.spec = spec
        return env
    heir, defaults = HEIRS.get(id, (id, {}))
    return OldStyle(id, gymnasium.make(heir, disable_env_checker=True, **{**defaults, **kwargs}))


class Env:
    """Gym's base class."""

    metadata: dict[str, Any] = {"render.modes": []}
    reward_range = (-float("inf"), float("inf"))
    spec: Any = None

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers."""
        return self

    def close(self) -> None:
        """Close nothing, as Gym's did."""

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed nothing, as Gym's did."""
        return [seed]


class Wrapper(Env):
    """Gym's base class of wrappers: missing attributes are the inner environment's."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The inner environment's registration."""
        return self.env.spec

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def step(self, action: Any) -> Any:
        """Step the inner environment."""
        return self.env.step(action)

    def reset(self, **kwargs: Any) -> Any:
        """Reset the inner environment."""
        return self.env.reset(**kwargs)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Return the inner environment's picture."""
        return self.env.render(mode, **kwargs)

    def close(self) -> None:
        self.env.close()

    def seed(self, seed: int | None = None) -> Any:
        return self.env.seed(seed)


class ObservationWrapper(Wrapper):
    """Changes observations."""

    def step(self, action: Any) -> Any:
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info

    def reset(self, **kwargs: Any) -> Any:
        return self.observation(self.env.reset(**kwargs))

    def observation(self, observation: Any) -> Any:
        """Return the changed observation."""
        raise NotImplementedError


class OldStyle(Env):
    """An environment of Gymnasium with Gym's methods.

    Its time limit does not end an episode: AllenAct's tasks count ``spec.max_episode_steps``
    themselves, so that truncated episodes are distinguished from failed ones.
    """

    def __init__(self, id: str, env: gymnasium.Env[Any, Any]) -> None:
        assert env.spec is not None
        self.spec = Spec(id, max_episode_steps=env.spec.max_episode_steps)
        self._env, self._seed = env.unwrapped, None
        self.action_space, self.observation_space = env.action_space, env.observation_space
        self.metadata = env.metadata

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed the next reset."""
        self._seed = seed  # type: ignore[assignment]
        return [seed]

    def reset(self) -> Any:
        """Begin an episode; return the observation."""
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        return observation

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Take an action; return observation, reward, whether the episode has ended, and more."""
        observation, reward, terminated, _, info = self._env.step(action)
        return observation, float(reward), bool(terminated), info

    def render(self, mode: str = "human") -> Any:
        """Return a picture, if the environment was made with ``render_mode``."""
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Return a generator and its seed.

    The generator is seeded with the first 8 bytes of the seed's SHA-512, in words of 32 bits, as
    in Gym 0.17.3 (``gym/utils/seeding.py``), so that a seed gives the same maze in both.
    """
    if seed is None:
        seed = int.from_bytes(np.random.bytes(8), "little")
    hashed = int.from_bytes(hashlib.sha512(str(seed % 2**64).encode()).digest()[:8], "little")
    words = [hashed & 0xFFFFFFFF, hashed >> 32]
    return np.random.RandomState(words if words[1] else words[:1]), seed


def install() -> None:
    """Let ``import gym`` import this module, in this process."""
    modules: dict[str, dict[str, Any]] = {
        "gym": {
            "Env": Env,
            "GoalEnv": Env,
            "Wrapper": Wrapper,
            "ObservationWrapper": ObservationWrapper,
            "Space": gymnasium.spaces.Space,
            "make": make,
            "register": register,
        },
        "gym.core": {"Env": Env, "Wrapper": Wrapper, "ObservationWrapper": ObservationWrapper},
        "gym.utils": {},
        "gym.utils.seeding": {"np_random": np_random},
        "gym.envs": {},
        "gym.envs.registration": {"register": register, "make": make, "EnvSpec": Spec},
    }
    for name, contents in modules.items():
        module = types.ModuleType(name, __doc__)
        module.__path__ = []
        vars(module).update(contents)
        sys.modules[name] = module
    sys.modules["gym.error"] = gymnasium.error
    for name, module in list(sys.modules.items()):
        if name == "gymnasium.spaces" or name.startswith("gymnasium.spaces."):
            sys.modules[name.replace("gymnasium", "gym", 1)] = module
    for name in [name for name in sys.modules if name.startswith("gym.")]:
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(sys.modules[parent], child, sys.modules[name])
