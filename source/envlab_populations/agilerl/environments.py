"""Gymnasium's environments as AgileRL's programs make them, stepped in this process."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from tqdm import tqdm

from envlab.distributed.ranks import launched_rank
from envlab.errors import ConfigurationError
from envlab_populations.agilerl.settings import tell
from envlab_populations.hogwild.environments import newer_version, read_heirs


def make_vect_envs(
    env_name: str | None = None,
    num_envs: int = 1,
    *,
    make_env: Callable[[], Any] | None = None,
    should_async_vector: bool = True,
    extra_wrappers: Sequence[Callable[[Any], Any]] | None = None,
    **keywords: Any,
) -> gymnasium.vector.VectorEnv:
    """Return environments of a name, or of a function that makes one.

    A removed environment is replaced by its newer version, with a printed note.

    Raises:
        ConfigurationError: If Gymnasium cannot make it.
    """
    if make_env is None and env_name is None:
        raise ConfigurationError("make_vect_envs needs env_name or make_env. Give one of them.")
    name = known_name(env_name) if env_name is not None else ""

    def make() -> Any:
        env = gymnasium.make(name, **keywords) if make_env is None else make_env()
        for wrapper in extra_wrappers or ():
            env = wrapper(env)
        return env

    if should_async_vector and num_envs > 1:
        tell("environments are stepped in this process: AsyncVectorEnv would start one for each")
    try:
        return gymnasium.vector.SyncVectorEnv([make] * num_envs)
    except (gymnasium.error.Error, ImportError) as error:
        raise ConfigurationError(
            f"Gymnasium cannot make {env_name!r}: {str(error).splitlines()[0]} Install what it "
            "needs, or name another."
        ) from error


def known_name(name: str) -> str:
    """Return an environment's name, or that of its replacement."""
    heir = read_heirs().get(name) or newer_version(name)
    if heir is None:
        return name
    tell(f"{name} no longer exists; {heir} takes its place")
    return heir


def make_skill_vect_envs(
    env_name: str, skill: Callable[[Any], Any], num_envs: int = 1
) -> gymnasium.vector.VectorEnv:
    """Return environments whose rewards a skill decides."""
    return make_vect_envs(env_name, num_envs, should_async_vector=False, extra_wrappers=[skill])


class Skill(gymnasium.Wrapper):
    """An environment whose rewards and ends a subclass decides by ``skill_reward``."""

    def skill_reward(
        self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any
    ) -> tuple[Any, ...]:
        """Return a step with the skill's rewards and ends."""
        return observation, reward, terminated, truncated, info

    def step(self, action: Any) -> Any:
        """Make a step, and let the skill judge it."""
        return self.skill_reward(*self.env.step(action))


def observation_space_channels_to_first(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space of images whose channels come first."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return space
    low, high = (np.moveaxis(bound, -1, 0) for bound in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype.type)


def obs_channels_to_first(obs: Any) -> Any:
    """Return images, one or several, whose channels come first."""
    return np.moveaxis(np.asarray(obs), -1, -3) if np.ndim(obs) >= 3 else obs


def get_input_size_from_space(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of a network's input."""
    return (int(space.n),) if isinstance(space, spaces.Discrete) else tuple(space.shape or ())


def get_output_size_from_space(space: spaces.Space[Any]) -> int:
    """Return a network's number of outputs for actions."""
    return int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))


def calculate_vectorized_scores(
    rewards: Any, terminations: Any, include_unterminated: bool = False, only_first: bool = True
) -> list[float]:
    """Return episodes' returns, for rewards ``(num_envs, num_steps)``.

    Args:
        rewards: The reward of each step.
        terminations: Whether a step ended an episode.
        include_unterminated: Whether episodes that have not ended count too.
        only_first: Whether only the first episode of each environment counts.
    """
    found: list[float] = []
    for row, ends in zip(np.asarray(rewards), np.asarray(terminations), strict=True):
        last = [int(i) + 1 for i in np.flatnonzero(ends)]
        if include_unterminated and (not last or last[-1] < len(row)):
            last.append(len(row))
        parts = [float(row[a:b].sum()) for a, b in itertools.pairwise([0, *last])]
        found += parts[:1] if only_first else parts
    return found


def default_progress_bar(max_steps: int, accelerator: Any = None) -> Any:
    """Return a bar of ``max_steps``, silent on all ranks except the first."""
    return tqdm(total=max_steps, unit="step", file=sys.stdout, disable=launched_rank() != 0)
