"""The audit: what must be equal on all ranks is compared, and what must differ too.

A rank that drifts (an unreduced gradient, a local normaliser, a second seed offset) does not fail,
it only learns worse. The audit hashes each tensor and compares the hashes, which costs
milliseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.errors import RankDivergenceError


def digest(value: Any) -> str:
    """Return a hash of a tensor's dtype, shape and bits, or of another value's ``repr``."""
    if not isinstance(value, torch.Tensor):
        return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
    value = value.detach().cpu().contiguous()
    header = f"{value.dtype}{tuple(value.shape)}".encode()
    data = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    return hashlib.sha256(header + data).hexdigest()[:16]


def flatten(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts and lists into ``{"optimizer.state.0.exp_avg": tensor}``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            flat |= flatten(value, name)
        else:
            flat[name] = value
    return flat


def audit(
    context: DistributedContext,
    equal: Mapping[str, Any],
    different: Mapping[str, Any],
    *,
    iteration: int,
) -> None:
    """Compare ranks; every rank must call this with the same names.

    Args:
        context: The process's context.
        equal: Nested values that must be bit-identical on all ranks (parameters, optimizer,
            normalisers, learning rate).
        different: Values of which no two ranks may hold the same (environment streams).
        iteration: Where the run is, for the message.

    Raises:
        RankDivergenceError: On every rank alike, naming the values, the ranks and the iteration.
    """
    if not context.is_distributed:
        return
    mine = (
        {name: digest(value) for name, value in flatten(equal).items()},
        {name: digest(value) for name, value in flatten(different).items()},
    )
    everyone = context.gather(mine)
    problems = [
        _unequal(name, [ranks[0].get(name) for ranks in everyone]) for name in _names(everyone, 0)
    ]
    problems += [
        _equal(name, [ranks[1].get(name) for ranks in everyone]) for name in _names(everyone, 1)
    ]
    found = [problem for problem in problems if problem]
    if found:
        shown = "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
        raise RankDivergenceError(
            f"The ranks diverged by iteration {iteration}: {shown}. The run stops here because its "
            "results would be wrong; resume from the last checkpoint, which passed this audit."
        )


def _names(everyone: list[tuple[dict[str, str], dict[str, str]]], part: int) -> list[str]:
    return list(dict.fromkeys(name for ranks in everyone for name in ranks[part]))


def _unequal(name: str, digests: list[str | None]) -> str | None:
    """Name the ranks that differ from the most common value (rank 0's where there is a tie)."""
    if len(set(digests)) == 1:
        return None
    usual = max(digests, key=lambda value: (digests.count(value), value == digests[0]))
    odd = [rank for rank, value in enumerate(digests) if value != usual]
    same = [rank for rank, value in enumerate(digests) if value == usual]
    return f"{name} on {_ranks(odd)} differs from {_ranks(same)}"


def _equal(name: str, digests: list[str | None]) -> str | None:
    for value in digests:
        ranks = [rank for rank, other in enumerate(digests) if other == value]
        if len(ranks) > 1:
            return f"{name} is the same on {_ranks(ranks)}, but every rank needs its own"
    return None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
