"""A population's checkpoint for those who want one learner, or have another number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def of_leader(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint as one of the leader alone, which its library can play; or as it is."""
    population = values["model"].get("population")
    if population is None:
        return dict(values)
    parts = [part["learner"]["members"] for part in values["ranks"]]
    (leader,) = [part[population["leader"]] for part in parts if population["leader"] in part]
    return {**values, "model": leader["model"]}


def dealt(values: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members of a population's checkpoint, shared out among another number of ranks.

    What else a checkpoint has of each rank begins afresh.
    """
    if "population" not in values["model"]:
        return [None] * num_ranks
    members = {k: v for part in values["ranks"] for k, v in part["learner"]["members"].items()}
    share = -(-len(members) // num_ranks)
    return [
        {"learner": {"members": {i: one for i, one in members.items() if i // share == rank}}}
        for rank in range(num_ranks)
    ]
