"""Configurations of agents written for skrl 1, for the installed skrl 2.

skrl 2 itself takes most of the old names.
"""

from __future__ import annotations

import re
from typing import Any

_RENAMED = {
    "amp_state_preprocessor": "amp_observation_preprocessor",
    "amp_state_preprocessor_kwargs": "amp_observation_preprocessor_kwargs",
    "task_reward_weight": "task_reward_scale",
}


def new_agent(agent: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of AMP under the names of skrl 2.

    The style reward had a weight and a scale, whose product is what it has now.
    """
    made = {_RENAMED.get(name, name): value for name, value in agent.items()}
    scales = [made.pop(old, None) for old in ("style_reward_weight", "discriminator_reward_scale")]
    if scales != [None, None]:
        weight, scale = (1.0 if value is None else float(value) for value in scales)
        made["style_reward_scale"] = weight * scale
    return made


def new_models(models: Any) -> Any:
    """Return the networks of a single agent with inputs as skrl 2 calls them.

    ``STATES`` was skrl 1's word for observations; it now means what only a critic may see.
    """
    if isinstance(models, list):
        return [new_models(one) for one in models]
    if not isinstance(models, dict):
        return models
    return {
        name: re.sub(r"\bSTATES\b", "OBSERVATIONS", value)
        if name == "input" and isinstance(value, str)
        else new_models(value)
        for name, value in models.items()
    }


def is_old(agent: dict[str, Any]) -> bool:
    """Return whether an agent's configuration was written for skrl 1, by skrl 2's own rule."""
    return "observation_preprocessor" not in agent
