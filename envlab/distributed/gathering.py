"""Large values from all ranks to rank 0, and back: tensors are sent as they are, not pickled.

Pickled, a replay memory of 0.5 GB is copied four times on its way, and rank 0 waits for all of it.
Tensors always arrive on the CPU, because rank 0 has no room for the GPU memory of all ranks.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

ROOM = 2**12
"""Bytes of a pickle that :func:`gather` exchanges at once."""
MIN_BYTES = 2**16
"""Smaller tensors are pickled with the rest, as separate messages would take longer."""
_HEADER = 8
MAX_BYTES = 2**26
"""Larger ones are sent in pieces, so that the watchdog sees progress even on slow networks."""

Moved = Callable[[], None]
"""Called after each piece that was sent or received."""


@dataclass(frozen=True)
class _Parcel:
    """Placeholder for a tensor that is sent separately."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def gather(value: Any, world_size: int, room: int = ROOM) -> list[Any]:
    """Return every rank's value on every rank, in rank order.

    torch's ``all_gather_object`` exchanges the sizes first and the values second. Here every rank
    sends ``room`` bytes at once, and the rest of longer pickles second, so that nodes far apart
    wait once for small values.

    Args:
        value: Any picklable object.
        world_size: Number of ranks, at least 2.
        room: Bytes that ranks send at once, the same on all ranks.
    """
    pickled = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    mine = torch.frombuffer(
        bytearray(len(pickled).to_bytes(_HEADER, "little") + pickled), dtype=torch.uint8
    )
    room += _HEADER
    everyone = _all_gather(mine[:room], world_size, room)
    sizes = [
        _HEADER + int.from_bytes(one[:_HEADER].numpy().tobytes(), "little") for one in everyone
    ]
    if max(sizes) > room:
        rest = _all_gather(mine[room:], world_size, max(sizes) - room)
        everyone = [torch.cat(parts) for parts in zip(everyone, rest, strict=True)]
    return [
        pickle.loads(one[_HEADER:size].numpy().tobytes())
        for one, size in zip(everyone, sizes, strict=True)
    ]


def _all_gather(mine: torch.Tensor, world_size: int, size: int) -> list[torch.Tensor]:
    """Return all ranks' bytes, each padded to ``size``."""
    padded = torch.zeros(size, dtype=torch.uint8)
    padded[: len(mine)] = mine
    everyone = [torch.empty_like(padded) for _ in range(world_size)]
    dist.all_gather(everyone, padded)
    return everyone


def gather_to_main(value: Any, world_size: int, rank: int, moved: Moved) -> list[Any] | None:
    """Return every rank's value on rank 0, in rank order, and None on the others.

    Args:
        value: Dictionaries, lists and tuples of tensors and of picklable objects.
        world_size: Number of ranks, at least 2.
        rank: This process's.
        moved: Called for each piece.
    """
    light, parcels = pack(value) if rank else (None, [])
    everyone: list[Any] | None = None if rank else [None] * world_size
    dist.gather_object(light, everyone, dst=0)
    if everyone is None:
        _send(parcels, 0, moved)
        return None
    return [value, *(_received(everyone[source], source, moved) for source in range(1, world_size))]


def scatter_from_main(
    values: Sequence[Any] | None, world_size: int, rank: int, moved: Moved
) -> Any:
    """Return this rank's one of the values on rank 0; no rank gets those of others.

    Args:
        values: On rank 0, one value per rank, as in :func:`gather_to_main`; ignored elsewhere.
        world_size: Number of ranks, at least 2.
        rank: This process's.
        moved: Called for each piece.
    """
    packed = [] if rank else [pack(value) for value in values or ()][1:]
    box: list[Any] = [None]
    dist.scatter_object_list(box, None if rank else [None, *(one[0] for one in packed)], src=0)
    if rank:
        return _received(box[0], 0, moved)
    for other, (_, parcels) in enumerate(packed, 1):
        _send(parcels, other, moved)
    assert values is not None
    return values[0]


def transfer(value: Any, source: int, target: int, rank: int, moved: Moved) -> Any:
    """Return one rank's value on another; both ranks must call this.

    Args:
        value: On ``source``, a value as in :func:`gather_to_main`; ignored elsewhere.
        source: Rank that has the value, and keeps it.
        target: Rank that gets it, another one.
        rank: This process's.
        moved: Called for each piece.
    """
    if rank == target:
        box: list[Any] = [None]
        dist.recv_object_list(box, src=source)
        return _received(box[0], source, moved)
    light, parcels = pack(value)
    dist.send_object_list([light], dst=target)
    _send(parcels, target, moved)
    return value


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return nested containers with ``replace`` applied to all their values, in order."""
    if isinstance(value, dict):
        return {key: _replaced(part, replace) for key, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, replace) for part in value]
    if type(value) is tuple:
        return tuple(_replaced(part, replace) for part in value)
    return replace(value)


def pack(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """Return a value with parcels in place of its large tensors, and these tensors."""
    parcels: list[torch.Tensor] = []
    return _replaced(value, lambda part: _pack(part, parcels)), parcels


def _pack(value: Any, parcels: list[torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.nbytes < MIN_BYTES:
        return value
    parcels.append(value)
    return _Parcel(tuple(value.shape), value.dtype)


def _send(parcels: Sequence[torch.Tensor], to: int, moved: Moved) -> None:
    for tensor in parcels:
        for piece in _as_bytes(tensor).split(MAX_BYTES):
            dist.send(piece, dst=to)
            moved()


def _received(value: Any, source: int, moved: Moved) -> Any:
    """Return a value with its parcels replaced by the tensors that a rank now sends."""
    return _replaced(value, functools.partial(_receive, source, moved))


def _receive(source: int, moved: Moved, value: Any) -> Any:
    if not isinstance(value, _Parcel):
        return value
    tensor = torch.empty(value.shape, dtype=value.dtype)
    for piece in _as_bytes(tensor).split(MAX_BYTES):
        dist.recv(piece, src=source)
        moved()
    return tensor


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory, or that of a contiguous copy, as uint8 ``(num_bytes,)``."""
    return tensor.contiguous().view(-1).view(torch.uint8)
