"""Comparing values over ranks: whether they agree, and which rank has which value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError

SHOWN = 5
"""Differences that a message names; it only counts the others."""
ABSENT = "nothing"
"""The value that a message gives for a rank without the name."""


def differences(context: DistributedContext, values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values that ranks disagree in, by name and rank. Every rank must call this.

    Ranks exchange one digest, and the values only if it differs.

    Args:
        context: The process's context.
        values: Values that should be the same everywhere, as text.
    """
    text = "\n".join(f"{name}={values[name]!r}" for name in sorted(values))
    if len(set(context.gather(hashlib.sha256(text.encode()).hexdigest()))) == 1:
        return {}
    everyone: list[dict[str, str]] = context.gather(dict(values))
    names = dict.fromkeys(name for found in everyone for name in found)
    by_name = {name: [found.get(name, ABSENT) for found in everyone] for name in names}
    return {name: found for name, found in by_name.items() if len(set(found)) > 1}


def require_agreement(
    context: DistributedContext, values: Mapping[str, str], sentence: str
) -> None:
    """Refuse to continue if ranks disagree. Every rank must call this.

    Args:
        context: The process's context.
        values: Values that should be the same everywhere, as text.
        sentence: The message, with ``{found}`` for the names, their values and ranks.

    Raises:
        ConfigurationError: On every rank alike.
    """
    found = differences(context, values)
    if found:
        parts = [f"{name} is {name_ranks(each)}" for name, each in found.items()]
        more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
        raise ConfigurationError(sentence.format(found="; ".join(parts[:SHOWN] + more)))


def name_ranks(values: Sequence[object]) -> str:
    """Return which ranks have which value: ``2.13.0 on ranks 0-2, 2.12.1 on rank 3``."""
    parts = []
    for value in dict.fromkeys(values):
        ranks = [rank for rank, other in enumerate(values) if other == value]
        parts.append(f"{value} on {rank_list(ranks)}")
    return ", ".join(parts)


def rank_list(ranks: Sequence[int]) -> str:
    """Return ranks in words: ``rank 3``, ``ranks 0-2, 5``."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [str(low) if low == high else f"{low}-{high}" for low, high in spans]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}"
