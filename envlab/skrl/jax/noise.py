"""Randomness of skrl on JAX, by envlab's seed rule.

skrl's models and noises share one key, and count their draws. So the twin critics of SAC and TD3
start with the same parameters and stay equal forever, all agents of a multi-agent algorithm draw
the same noise, and draws depend on how often JAX has compiled. Random actions come from a generator
that is never seeded. And a draw inside a compiled function is a constant: SAC's policy update saw
the same noise in every update.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
import torch
from gymnasium.vector.utils import batch_space

from envlab.skrl.library import load_skrl

load_skrl()

from skrl.models.jax import Model  # noqa: E402
from skrl.resources.noises.jax import Noise  # noqa: E402
from skrl.utils.spaces.jax import flatten_tensorized_space, tensorize_space  # noqa: E402

DRAWS_PER_STEP = 1024
"""More than a model draws between two steps of the environments."""

_SOURCES = (("_g_key", "_g_i"), ("_c_key", "_c_i"), ("_mc_key", "_mc_i"), ("_key", "_i"))
"""Attributes in which skrl's models and noises keep their key and count their draws."""


def initialise(models: Iterable[tuple[str, Model]], seed: int) -> None:
    """Give every model its own parameters, which depend only on the base seed.

    Args:
        models: Roles and models, in an order that is the same on every rank.
        seed: The base seed.
    """
    key = jax.random.PRNGKey(_word(seed))
    for number, (role, model) in enumerate(models):
        model.init_state_dict(role=role, key=jax.random.fold_in(key, number))
        model.random_act = functools.partial(_random_act, model)


class ActionNoise:
    """The noise of a rank: a function only of seed, source, timestep and draws within it."""

    def __init__(self, sources: Iterable[Model | Noise], seed: int) -> None:
        """Give each source its own key.

        Args:
            sources: Models and noises; those that draw no random numbers are omitted.
            seed: Base seed + rank.
        """
        self._sources: list[tuple[Any, str, str]] = []
        base = jax.random.PRNGKey(_word(seed))
        for number, source in enumerate(sources):
            for key_name, counter in _SOURCES:
                if hasattr(source, key_name):
                    setattr(source, key_name, jax.random.fold_in(base, number))
                    self._sources.append((source, key_name, counter))

    def start(self, timestep: int) -> None:
        """Begin the draws of a timestep."""
        for source, _, counter in self._sources:
            setattr(source, counter, timestep * DRAWS_PER_STEP % 2**31)

    def keys(self) -> dict[str, torch.Tensor]:
        """Return the key of each source, without drawing."""
        return {
            str(number): torch.from_numpy(np.array(getattr(source, key_name)))
            for number, (source, key_name, _) in enumerate(self._sources)
        }


def drawing_anew(stock: Any) -> Callable[..., Any]:
    """Return SAC's ``_update_policy`` of skrl, changed to draw fresh noise in every update.

    skrl's own draws while it is compiled, and so sees the same noise in every update. Here it is
    compiled with the key as an argument.
    """

    @functools.partial(jax.jit, static_argnums=(0, 1, 2))
    def compiled(
        policy_act: Any, critic_1_act: Any, critic_2_act: Any, key: jax.Array, *values: Any
    ) -> Any:
        with _drawing_from(policy_act.__self__, key):
            return stock.__wrapped__(policy_act, critic_1_act, critic_2_act, *values)

    def update_policy(policy_act: Any, critic_1_act: Any, critic_2_act: Any, *values: Any) -> Any:
        policy = policy_act.__self__
        policy._g_i += 1
        key = jax.random.fold_in(policy._g_key, policy._g_i)
        return compiled(policy_act, critic_1_act, critic_2_act, key, *values)

    return update_policy


@contextlib.contextmanager
def _drawing_from(policy: Any, key: jax.Array) -> Iterator[None]:
    """Let a policy draw from a key while it is compiled; a count would become a constant."""
    before = policy._g_key, policy._g_i
    policy._g_key, policy._g_i = key, 0
    try:
        yield
    finally:
        policy._g_key, policy._g_i = before


def _random_act(model: Model, inputs: dict[str, Any], **_: Any) -> tuple[jax.Array, dict[str, Any]]:
    """Return random actions from NumPy's generator, which is seeded and saved."""
    count = inputs["observations"].shape[0]
    space = batch_space(model.action_space, count)
    space.seed(int(np.random.randint(2**31)))
    actions = tensorize_space(model.action_space, space.sample(), device=model.device)
    return flatten_tensorized_space(actions), {}


def _word(seed: int) -> int:
    return seed % 2**32
