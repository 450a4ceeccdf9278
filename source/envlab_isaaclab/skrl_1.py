"""Isaac Lab 2.3's configurations of AMP, written for skrl 1, for the installed skrl 2.

skrl 2 itself takes the old names of its other agents.
"""

from __future__ import annotations

from typing import Any

_RENAMED = {
    "amp_state_preprocessor": "amp_observation_preprocessor",
    "amp_state_preprocessor_kwargs": "amp_observation_preprocessor_kwargs",
    "task_reward_weight": "task_reward_scale",
}


def new_agent(agent: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's configuration under the names of skrl 2.

    The style reward had a weight and a scale, whose product is what it has now.
    """
    made = {_RENAMED.get(name, name): value for name, value in agent.items()}
    scales = [made.pop(old, None) for old in ("style_reward_weight", "discriminator_reward_scale")]
    if scales != [None, None]:
        weight, scale = (1.0 if value is None else float(value) for value in scales)
        made["style_reward_scale"] = weight * scale
    return made
