"""Large values from all ranks to rank 0: tensors travel as they are, without being pickled.

Pickled, a replay memory of 0.5 GB is copied four times on its way, and rank 0 waits for all of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

MIN_BYTES = 2**16
"""Smaller tensors are pickled with the rest: a message of their own would take longer."""


@dataclass(frozen=True)
class _Parcel:
    """Stands for a tensor that travels by itself."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def gather_to_main(value: Any, world_size: int, rank: int) -> list[Any] | None:
    """Return every rank's value on rank 0, in rank order, and None on the others.

    Args:
        value: Dictionaries, lists and tuples of tensors on the CPU and of picklable objects.
        world_size: Number of ranks, at least 2.
        rank: This process's.
    """
    parcels: list[torch.Tensor] = []
    light = _replaced(value, lambda tensor: _pack(tensor, parcels)) if rank else None
    everyone: list[Any] | None = None if rank else [None] * world_size
    dist.gather_object(light, everyone, dst=0)
    if everyone is None:
        for tensor in parcels:
            dist.send(_as_bytes(tensor), dst=0)
        return None
    for source in range(1, world_size):
        everyone[source] = _replaced(everyone[source], functools.partial(_receive, source))
    return [value, *everyone[1:]]


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return nested containers with ``replace`` applied to all that they hold, in order."""
    if isinstance(value, dict):
        return {key: _replaced(part, replace) for key, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, replace) for part in value]
    if type(value) is tuple:
        return tuple(_replaced(part, replace) for part in value)
    return replace(value)


def _pack(value: Any, parcels: list[torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor) or value.nbytes < MIN_BYTES or value.is_cuda:
        return value
    parcels.append(value)
    return _Parcel(tuple(value.shape), value.dtype)


def _receive(source: int, value: Any) -> Any:
    if not isinstance(value, _Parcel):
        return value
    tensor = torch.empty(value.shape, dtype=value.dtype)
    dist.recv(_as_bytes(tensor), src=source)
    return tensor


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory, or that of a copy without gaps, as uint8 ``(num_bytes,)``."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
