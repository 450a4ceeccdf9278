"""Checkpoints of several members, which a guest trains together, for one learner.

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
