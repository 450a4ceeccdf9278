"""Checkpoints of several members, which a guest trains together, for one learner.

``model.population`` has their number (``size``), who they are (``members``), and the place of the
member to play (``leader``; a ``kept`` member has no place). Networks are in ``model.networks`` by
place, or, if a process trains its own members, in its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.errors import CheckpointError


def of_leader(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of members as its leader's, for a library to play; others unchanged.

    It also has the leader's entry of ``members``, as ``member``.
    """
    population = values["model"].get("population")
    if population is None:
        return dict(values)
    place, networks = population["leader"], dict(values["model"]["networks"])
    for part in values["ranks"]:
        member = part["learner"]["members"].get(place, {}) if part else {}
        networks |= {place: member["model"]} if "model" in member else {}
    member = population["kept"] or population["members"][place]
    return {**values, "model": networks[place], "member": member}


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
