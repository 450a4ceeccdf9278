"""A population's checkpoint for a single learner, or for another number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def of_leader(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a population's checkpoint as its leader's, for a library to play; others unchanged."""
    population = values["model"].get("population")
    if population is None:
        return dict(values)
    parts = [part["learner"]["members"] for part in values["ranks"]]
    (leader,) = [part[population["leader"]] for part in parts if population["leader"] in part]
    return {**values, "model": leader["model"]}


def dealt(values: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members of a population's checkpoint, divided among another number of ranks.

    Everything else that a checkpoint has per rank starts afresh.
    """
    if "population" not in values["model"]:
        return [None] * num_ranks
    members = {k: v for part in values["ranks"] for k, v in part["learner"]["members"].items()}
    share = -(-len(members) // num_ranks)
    return [
        {"learner": {"members": {i: one for i, one in members.items() if i // share == rank}}}
        for rank in range(num_ranks)
    ]
