"""Arrays of JAX: from and to torch, of environments, in skrl's memories, and in checkpoints.

They pass between torch and JAX by DLPack, on the same device. JAX assumes that its arrays are
immutable and computes on them later, while environments write into their tensors immediately, so
torch makes a copy for each transfer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from envlab.skrl.env import SkrlEnv, Transition
from envlab.skrl.learner import dealt_memory
from envlab.skrl.library import load_skrl, misfit
from envlab.state import Share

load_skrl()

from skrl.memories.jax import RandomMemory  # noqa: E402


class CompiledMemory(RandomMemory):
    """skrl's memory, which takes all rows of a mini-batch by one compiled function.

    skrl indexes one tensor after another without compiling, which was 45 % of an update: 1.1 ms per
    tensor, now 0.1 ms per mini-batch.
    """

    tensors: dict[str, jax.Array]

    def sample_by_index(
        self, names: list[str], *, indexes: Any, mini_batches: int = 1
    ) -> list[list[jax.Array | None]]:
        tensors = {name: self.tensors[name] for name in names if name in self.tensors}
        batches = []
        for part in np.array_split(indexes, mini_batches):
            rows = _take_rows(tensors, part)
            batches.append([rows.get(name) for name in names])
        return batches

    def state(self) -> dict[str, Any]:
        """Return its contents as torch tensors."""
        tensors = tree_state(self.tensors)
        return {"index": self.memory_index, "filled": self.filled, "tensors": tensors}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self.memory_index, self.filled = state["index"], state["filled"]
        self.tensors = load_tree(self.tensors, state["tensors"], "memory")

    def deal(self, saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
        """Return a share of what several processes saved; see :func:`envlab.state.deal`."""
        dealt = dealt_memory(saved, share, self.memory_size)
        for name, values in dealt["tensors"].items():
            rest = values.new_zeros(self.memory_size - len(values), *values.shape[1:])
            dealt["tensors"][name] = torch.cat([values, rest])
        return dealt


def to_jax(tensor: torch.Tensor) -> jax.Array:
    """Return a copy of a tensor as a JAX array on the same device."""
    return jax.dlpack.from_dlpack(tensor.detach().clone(memory_format=torch.contiguous_format))


def to_torch(array: jax.Array) -> torch.Tensor:
    """Return a copy of a JAX array as a tensor on the same device."""
    return view_in_torch(array).clone()


def view_in_torch(array: jax.Array) -> torch.Tensor:
    """Return a JAX array's own memory as a tensor: write only to parts that JAX never reads.

    The array must stay alive while the tensor is used.
    """
    if next(iter(array.devices())).platform == "cpu":
        array.block_until_ready()  # on a GPU, DLPack orders the streams instead
    return torch.from_dlpack(array)


def tree_state(tree: Any) -> dict[str, torch.Tensor]:
    """Return the arrays of a tree by their paths, such as ``params.net.layers_0.kernel``."""
    return {name: _to_cpu(leaf) for name, leaf in _leaves(tree).items()}


def load_tree(like: Any, state: Mapping[str, torch.Tensor], what: str) -> Any:
    """Return a tree like another one, with the arrays that :func:`tree_state` returned.

    Args:
        like: A tree of the same structure, on the wanted device.
        state: Arrays by path.
        what: Its name in the error.

    Raises:
        CheckpointError: If names or shapes differ.
    """
    leaves = _leaves(like)
    if leaves.keys() != state.keys():
        differing = sorted(leaves.keys() ^ state.keys())
        raise misfit(what, f"{differing[0]} is in one of them only")
    arrays = []
    for name, leaf in leaves.items():
        saved = state[name]
        if tuple(saved.shape) != tuple(leaf.shape):
            raise misfit(what, f"{name} is {tuple(saved.shape)} instead of {tuple(leaf.shape)}")
        array = np.asarray(saved.cpu().numpy(), dtype=leaf.dtype)
        arrays.append(jax.device_put(array.copy(), leaf.device))
    return jax.tree.unflatten(jax.tree.structure(like), arrays)


@jax.jit
def _take_rows(tensors: dict[str, jax.Array], indexes: jax.Array) -> dict[str, jax.Array]:
    return {
        name: values.reshape(-1, *values.shape[2:])[indexes] for name, values in tensors.items()
    }


def _leaves(tree: Any) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}


def _to_cpu(leaf: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(jax.device_get(leaf)))


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
