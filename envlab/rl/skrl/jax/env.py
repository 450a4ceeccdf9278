"""envlab's environments as skrl's agents on JAX see them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import torch

from envlab.rl.skrl.env import SkrlMarlEnv, SkrlVectorEnv
from envlab.rl.skrl.jax.arrays import to_jax, to_torch
from envlab.rl.skrl.learner import Transition


class JaxEnv:
    """The environments of :mod:`envlab.rl.skrl.env`, seen and moved by JAX's arrays.

    Attributes:
        env: The same with torch's tensors; it has the spaces.
    """

    def __init__(self, env: SkrlVectorEnv | SkrlMarlEnv) -> None:
        """See :class:`JaxEnv`."""
        self.env = env

    def observe(self) -> tuple[Any, Any]:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        return _to_jax(self.env.observe(), {})

    def advance(self, actions: Any) -> Transition:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        given = jax.tree.map(lambda values: to_torch(jnp.asarray(values)), actions)
        step = self.env.advance(given)
        names = [field.name for field in dataclasses.fields(step)]
        torchs = ("returns", "ended", "info")
        done: dict[int, jax.Array] = {}
        arrays = {name: _to_jax(getattr(step, name), done) for name in names if name not in torchs}
        return dataclasses.replace(step, **arrays)


def _to_jax(values: Any, done: dict[int, jax.Array]) -> Any:
    """Return tensors in dictionaries and tuples as arrays; what is the same stays the same."""
    if isinstance(values, dict):
        return {name: _to_jax(value, done) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(_to_jax(value, done) for value in values)
    if not isinstance(values, torch.Tensor):
        return values
    if id(values) not in done:
        done[id(values)] = to_jax(values)
    return done[id(values)]
