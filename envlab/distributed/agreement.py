"""What ranks say of the same thing: whether they agree, and who says what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from envlab.distributed.context import DistributedContext

ABSENT = "nothing"
"""What a rank is said to have that does not know a name."""


def differences(context: DistributedContext, values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what ranks disagree in: by name, the value of each rank. Every rank must call this.

    One digest is exchanged, and the values only where it differs.

    Args:
        context: The process's context.
        values: What should be the same everywhere, as text.
    """
    text = "\n".join(f"{name}={values[name]!r}" for name in sorted(values))
    if len(set(context.gather(hashlib.sha256(text.encode()).hexdigest()))) == 1:
        return {}
    everyone: list[dict[str, str]] = context.gather(dict(values))
    names = dict.fromkeys(name for found in everyone for name in found)
    by_name = {name: [found.get(name, ABSENT) for found in everyone] for name in names}
    return {name: found for name, found in by_name.items() if len(set(found)) > 1}


def name_ranks(values: Sequence[object]) -> str:
    """Return who has which value: ``2.13.0 on ranks 0-2, 2.12.1 on rank 3``."""
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
