"""A training's need of memory and disk, counted before the first step from what was built."""

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
"""Tensors of a parameter's size that an optimizer makes at its first step; Adam's kin make 2."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Memory of one process, in bytes, and the number of parameters."""

    num_parameters: int
    """Numbers in the networks, including target networks."""
    built: int
    """Memory that the process holds now, measured: libraries, environments, networks."""
    rollouts: int
    """The library's data other than parameters: rollouts or replay memory, statistics."""
    gradients: int
    """Gradients, made by the first update."""
    moments: int
    """Moments, made by the optimizers' first step."""
    moments_saved: int
    """Size of the moments in a file."""
    compiles: bool
    """Whether JAX will compile, whose memory cannot be counted."""

    @property
    def total(self) -> int:
        """Memory that it will hold, except for the temporary tensors of an update.

        Rollouts are counted in addition to ``built``: their memory is reserved, but the system only
        provides it when it is first written.
        """
        return self.built + self.rollouts + self.gradients + self.moments


class Scale:
    """Counts what a library makes between construction and :meth:`weigh`.

    Each library keeps rollouts elsewhere, so all living tensors are compared before and after.
    """

    def __init__(self) -> None:
        gc.collect()
        self._before = {_memory_of(each) for each in living()}

    def weigh(self, learner: Any) -> Footprint:
        """Return the footprint of everything made since construction.

        Args:
            learner: The library's :class:`~envlab.learner.Learner`.
        """
        made = [each for each in living() if _memory_of(each) not in self._before]
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
"""Tensors that have memory; others, such as those of torch's tracers, are placeholders."""


def living() -> list[Any]:
    """Return all tensors, JAX's arrays, and optimizers."""
    objects = gc.get_objects()  # millions, so each kind is checked once
    # By type(), because proxies compute their __class__, and asking would initialise them.
    kinds = {kind for kind in set(map(type, objects)) if _is_counted(kind)}
    some = [each for each in objects if type(each) in kinds]
    found = [each for each in some if _is_optimizer(each) or each.layout == torch.strided]
    return found + (sys.modules["jax"].live_arrays() if "jax" in sys.modules else [])


def _is_counted(kind: type) -> bool:
    return kind in _TENSORS or issubclass(kind, torch.optim.Optimizer)


def _is_optimizer(value: Any) -> bool:
    return issubclass(type(value), torch.optim.Optimizer)


def _memory_of(value: Any) -> tuple[str, int]:
    """Return an identifier of an array's memory, which tensors may share."""
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
    """A file that only counts the bytes written to it."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def write(self, data: Any) -> int:
        count = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        self.num_bytes += count
        return count

    def flush(self) -> None:
        """Do nothing: no output is buffered."""


def saved_bytes(values: Any) -> int:
    """Return the size of the file that ``torch.save`` would write of values."""
    counter = _Counter()
    torch.save(values, counter)  # type: ignore[arg-type]
    return counter.num_bytes
