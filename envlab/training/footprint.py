"""What a training takes of memory and disk, counted from what was built, before the first step."""

from __future__ import annotations

import gc
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.audit import flatten

_MOMENTS = {"Adagrad": 1, "RMSprop": 1}
"""Tensors of a parameter's size that an optimizer makes at its first step; Adam's kin make two."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Memory of one process, in bytes, and the number of parameters."""

    num_parameters: int
    """Numbers in the networks, target networks included."""
    built: int
    """What the process holds now, measured: libraries, environments, networks."""
    rollouts: int
    """What the library keeps beside parameters: rollouts or replay memory, statistics."""
    gradients: int
    """Made by the first update."""
    moments: int
    """Made by the optimizers' first step."""
    moments_saved: int
    """What these take in a file."""
    compiles: bool
    """Whether JAX is to compile, for which there is no count."""

    @property
    def total(self) -> int:
        """What it will hold, but for the temporary tensors of an update.

        Rollouts are counted beside ``built``: their memory is reserved, but the system gives it
        when it is first written.
        """
        return self.built + self.rollouts + self.gradients + self.moments


class Scale:
    """Counts what a library makes, between its beginning and :meth:`weigh`.

    Libraries keep rollouts in places of their own, so all tensors that live are looked at, before
    and after.
    """

    def __init__(self) -> None:
        gc.collect()
        self._before = {_memory_of(each) for each in _living()}

    def weigh(self, learner: Any) -> Footprint:
        """Return the footprint of what was made since.

        Args:
            learner: The library's :class:`~envlab.learner.Learner`.
        """
        made = [each for each in _living() if _memory_of(each) not in self._before]
        arrays = {_memory_of(each): _size(each) for each in made if not _is_optimizer(each)}
        # By their memory, because networks may share parameters.
        networks = {_memory_of(each): each for each in made if type(each) is torch.nn.Parameter}
        uses_jax = any(not isinstance(each, (torch.Tensor, torch.optim.Optimizer)) for each in made)
        parameters = _jax_parameters(learner) if uses_jax else list(networks.values())
        trained = {
            tensor: optimizer
            for optimizer in filter(_is_optimizer, made)
            for group in optimizer.param_groups
            for tensor in group["params"]
        }
        moments = [_moments(tensor, optimizer) for tensor, optimizer in trained.items()]
        return Footprint(
            num_parameters=sum(tensor.numel() for tensor in parameters),
            built=resident_bytes(),
            rollouts=max(0, sum(arrays.values()) - sum(map(_size, parameters))),
            gradients=sum(tensor.nbytes for tensor in trained if tensor.grad is None),
            moments=sum(each.nbytes for some in moments for each in some),
            moments_saved=saved_bytes(moments),
            compiles=uses_jax,
        )


_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""Tensors that have memory; others, such as those of torch's tracers, only stand for some."""


def _living() -> list[Any]:
    """Return all tensors, JAX's arrays, and optimizers."""
    # By type(), because proxies compute their __class__, and would be woken up by being asked.
    found = [
        each
        for each in gc.get_objects()
        if (type(each) in _TENSORS and each.layout == torch.strided) or _is_optimizer(each)
    ]
    return found + (sys.modules["jax"].live_arrays() if "jax" in sys.modules else [])


def _is_optimizer(value: Any) -> bool:
    return issubclass(type(value), torch.optim.Optimizer)


def _memory_of(value: Any) -> tuple[str, int]:
    """Return what tells apart the memory of arrays; tensors may share one."""
    if isinstance(value, torch.Tensor):
        return "torch", value.untyped_storage().data_ptr()
    return "other", id(value)


def _size(array: Any) -> int:
    """Return the bytes of a tensor's whole storage, or of a JAX array."""
    return array.untyped_storage().nbytes() if isinstance(array, torch.Tensor) else array.nbytes


def _moments(tensor: torch.Tensor, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return tensors like those that an optimizer's first step makes for a parameter."""
    if optimizer.state.get(tensor):
        return []
    name = type(optimizer).__name__
    count = _MOMENTS.get(name, 2)
    if name == "SGD":
        count = int(bool(optimizer.defaults.get("momentum")))
    return [torch.zeros_like(tensor, device="cpu") for _ in range(count)] + [torch.zeros(())]


def _jax_parameters(learner: Any) -> list[torch.Tensor]:
    """Return the arrays of a learner's networks, by the names of its parts."""
    others = ("optimizer", "preprocessor")
    flat = flatten(learner.model_state()["arrays"])
    return [
        array
        for name, array in flat.items()
        if isinstance(array, torch.Tensor) and not any(word in name for word in others)
    ]


def resident_bytes() -> int:
    """Return the memory that this process holds, in bytes; see proc(5)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class _Counter:
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def write(self, data: Any) -> int:
        count = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        self.num_bytes += count
        return count

    def flush(self) -> None:
        """Do nothing: nothing is kept."""


def saved_bytes(values: Any) -> int:
    """Return how large a file ``torch.save`` would make of values."""
    counter = _Counter()
    torch.save(values, counter)  # type: ignore[arg-type]
    return counter.num_bytes
