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
    """Counts what a library makes, between its beginning and :meth:`weigh`."""

    def __init__(self) -> None:
        gc.collect()
        self._before = _Living()

    def weigh(self, learner: Any) -> Footprint:
        """Return the footprint of what was made since.

        Args:
            learner: The library's :class:`~envlab.rl.loop.training.Learner`.
        """
        now, before = _Living(), self._before
        arrays = {key: size for key, size in now.arrays.items() if key not in before.arrays}
        parameters = [pair for key, pair in now.parameters.items() if key in arrays]
        uses_jax = any(library == "jax" for library, _ in arrays)
        if uses_jax:
            parameters = _jax_parameters(learner)
        trained = {
            id(tensor): (tensor, optimizer)
            for key, optimizer in now.optimizers.items()
            if key not in before.optimizers
            for group in optimizer.param_groups
            for tensor in group["params"]
        }
        moments = [_moments(tensor, optimizer) for tensor, optimizer in trained.values()]
        return Footprint(
            num_parameters=sum(count for count, _ in parameters),
            built=resident_bytes(),
            rollouts=max(0, sum(arrays.values()) - sum(size for _, size in parameters)),
            gradients=sum(tensor.nbytes for tensor, _ in trained.values() if tensor.grad is None),
            moments=sum(each.nbytes for some in moments for each in some),
            moments_saved=saved_bytes(moments),
            compiles=uses_jax,
        )


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""Tensors that have memory; others, such as those of torch's tracers, only stand for some."""


class _Living:
    """All arrays and optimizers that live now.

    Attributes:
        arrays: Bytes of torch's storages and of JAX's arrays.
        parameters: Number and bytes of torch's parameters, once where networks share one.
        optimizers: torch's optimizers by id.
    """

    def __init__(self) -> None:
        self.arrays: dict[tuple[str, int], int] = {}
        self.parameters: dict[tuple[str, int], tuple[int, int]] = {}
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        wanted = (torch.Tensor, torch.optim.Optimizer)
        # By type, because proxies compute their class, and would be woken up by being asked.
        for each in [each for each in gc.get_objects() if issubclass(type(each), wanted)]:
            if issubclass(type(each), torch.optim.Optimizer):
                self.optimizers[id(each)] = each
            elif type(each) in _PLAIN and each.layout == torch.strided:
                storage = each.untyped_storage()
                key = ("torch", storage.data_ptr())
                self.arrays[key] = storage.nbytes()
                if issubclass(type(each), torch.nn.Parameter):
                    self.parameters[key] = (each.numel(), storage.nbytes())
        if "jax" in sys.modules:
            live = sys.modules["jax"].live_arrays()
            self.arrays |= {("jax", id(each)): each.nbytes for each in live}


def _moments(tensor: torch.Tensor, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return tensors like those that an optimizer's first step makes for a parameter."""
    if optimizer.state.get(tensor):
        return []
    name = type(optimizer).__name__
    count = _MOMENTS.get(name, 2)
    if name == "SGD":
        count = int(bool(optimizer.defaults.get("momentum")))
    return [torch.zeros_like(tensor, device="cpu") for _ in range(count)] + [torch.zeros(())]


def _jax_parameters(learner: Any) -> list[tuple[int, int]]:
    """Return number and bytes of each array of a learner's networks, by the names of its parts."""
    others = ("optimizer", "preprocessor")
    flat = flatten(learner.model_state()["arrays"])
    return [
        (array.numel(), array.nbytes)
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
