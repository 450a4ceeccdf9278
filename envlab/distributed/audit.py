"""The audit: compares values that must be equal on all ranks, and values that must differ.

A rank that drifts (an unreduced gradient, a local normaliser, a second seed offset) does not fail
but learns worse. The audit digests each value on its rank (:mod:`envlab.distributed.digest`) and
compares one digest of all values. Only if these differ do ranks exchange the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.distributed.digest import combined, digests
from envlab.errors import RankDivergenceError

SHOWN = 5
"""Differences that a message names; it only counts the others."""


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
    """Compare ranks without advancing any generator; every rank must call this.

    Args:
        context: The process's context.
        equal: Nested values that must be bit-identical on all ranks (parameters, optimizer,
            normalisers, learning rate, counters). A NaN equals the same NaN; 0.0 and -0.0
            differ.
        different: Values that no two ranks may share (environment streams, the generators that
            actions are sampled from).
        iteration: The current iteration, for the message.

    Raises:
        RankDivergenceError: On every rank alike, naming the values, the ranks and the iteration.
    """
    if not context.is_distributed:
        return
    mine, own = digests(flatten(equal)), digests(flatten(different))
    everyone = context.gather((combined(mine), own))
    problems: list[str | None] = []
    if len({one for one, _ in everyone}) > 1:
        ranks = context.gather(mine)
        problems += [_unequal(name, [found.get(name) for found in ranks]) for name in _names(ranks)]
    owns = [one for _, one in everyone]
    problems += [_equal(name, [found.get(name) for found in owns]) for name in _names(owns)]
    found = [problem for problem in problems if problem]
    if found:
        shown = "; ".join(found[:SHOWN])
        shown += f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise RankDivergenceError(
            f"The ranks diverged by iteration {iteration}: {shown}. The run stops here because its "
            "results would be wrong."
        )


def _names(ranks: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for found in ranks for name in found))


def _unequal(name: str, found: list[str | None]) -> str | None:
    """Name the ranks that differ from the most common value (rank 0's if there is a tie)."""
    if len(set(found)) == 1:
        return None
    usual = max(found, key=lambda value: (found.count(value), value == found[0]))
    odd = [rank for rank, value in enumerate(found) if value != usual]
    same = [rank for rank, value in enumerate(found) if value == usual]
    return f"{name} on {_ranks(odd)} differs from {_ranks(same)}"


def _equal(name: str, found: list[str | None]) -> str | None:
    for value in filter(None, found):
        ranks = [rank for rank, other in enumerate(found) if other == value]
        if len(ranks) > 1:
            return f"{name} is the same on {_ranks(ranks)}, but every rank needs its own"
    return None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
