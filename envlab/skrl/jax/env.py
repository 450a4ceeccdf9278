"""envlab's environments as skrl's agents on JAX see them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import torch

from envlab.skrl.env import SkrlEnv, Transition
from envlab.skrl.jax.arrays import to_jax, to_torch

_TENSORS = ("returns", "ended", "info")
"""Fields of a transition that the agent does not get."""


class JaxEnv:
    """The environments of :mod:`envlab.skrl.env` with JAX arrays."""

    def __init__(self, tensors: SkrlEnv) -> None:
        """Wrap the same environments with torch tensors."""
        self._tensors = tensors
        self.env, self.spaces = tensors.env, tensors.spaces

    def observe(self) -> tuple[Any, Any]:
        """See :class:`SkrlEnv`."""
        observations, states = _to_jax(self._tensors.observe())
        return observations, states

    def advance(self, actions: Any) -> Transition:
        """See :class:`SkrlEnv`."""
        given = jax.tree.map(lambda values: to_torch(jnp.asarray(values)), actions)
        step = self._tensors.advance(given)
        names = [field.name for field in dataclasses.fields(step) if field.name not in _TENSORS]
        return dataclasses.replace(step, **_to_jax({name: getattr(step, name) for name in names}))


def _to_jax(tree: Any) -> Any:
    """Return tensors in dictionaries and tuples as arrays; identical ones stay identical."""
    done: dict[int, jax.Array] = {}

    def converted(tensor: torch.Tensor) -> jax.Array:
        if id(tensor) not in done:
            done[id(tensor)] = to_jax(tensor)
        return done[id(tensor)]

    return jax.tree.map(converted, tree)
