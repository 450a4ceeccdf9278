"""Checkpoints of several members, which a guest trains together: for one learner, or other ranks.

``model.population`` has their number (``size``) and the place of the fittest (``leader``); each
rank's part has its own members by their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.errors import CheckpointError


def of_leader(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of members as its leader's, for a library to play; others unchanged."""
    population = values["model"].get("population")
    if population is None:
        return dict(values)
    parts = [part["learner"]["members"] for part in values["ranks"]]
    (leader,) = [part[population["leader"]] for part in parts if population["leader"] in part]
    return {**values, "model": leader["model"]}


def dealt(values: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members of a checkpoint, divided among another number of ranks.

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


def check_single(values: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of members for a single learner.

    Raises:
        CheckpointError: With the number of members.
    """
    if "population" in values["model"]:
        raise CheckpointError(
            f"The checkpoint is of a population of {values['model']['population']['size']}. "
            "Resume it as it was begun, or choose a checkpoint of a single learner."
        )
