"""What ranks remembered in checkpoints of format 1; see :mod:`envlab.run.old_states`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.run.old_states import skrl_state


def hogwild_state(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's state: skrl's, running returns, and episodes under way."""
    under_way = None
    if "under_way" in old:
        names = ("agent.memory.steps", "agent.num_ended", "agent.episodes")
        under_way = {name: old["under_way"].get(name.rpartition(".")[2]) for name in names}
    return {
        **skrl_state(old),
        "agent.reward_normaliser.returns": old.get("returns"),
        "under_way": under_way,
    }


def evolution_state(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evolution's state: members, their noise, and the replay memory."""
    noise = {
        position: {"agent.exploration_noise.state": one} for position, one in old["noise"].items()
    }
    return {
        "own_members": {"members": old["members"], "noise": noise},
        "nursery.memory": old["replay"],
    }
