"""Names of skrl 1.x in agent files, mapped as the compatibility check of skrl 2's runner does."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Mapping
from typing import Any

from envlab.skrl.library import ON_POLICY

logger = logging.getLogger(__name__)

_RENAMED = {
    "lambda": "gae_lambda",
    "state_preprocessor": "observation_preprocessor",
    "state_preprocessor_kwargs": "observation_preprocessor_kwargs",
    "shared_state_preprocessor": "state_preprocessor",
    "shared_state_preprocessor_kwargs": "state_preprocessor_kwargs",
    "amp_state_preprocessor": "amp_observation_preprocessor",
    "amp_state_preprocessor_kwargs": "amp_observation_preprocessor_kwargs",
}
VALUE_CLIP = 0.2
"""Default of 1.x for clipping predicted values."""


def modernised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent file's values under the names of skrl 2; changes are logged."""
    modern = copy.deepcopy(dict(values))
    if not isinstance(modern.get("agent"), Mapping):
        return modern
    agent, changes = _modern_agent(modern["agent"])
    if not changes:
        return modern
    logger.info("The agent's configuration is for skrl 1.x; in skrl 2: %s.", ", ".join(changes))
    modern["agent"] = agent
    if isinstance(modern.get("models"), Mapping):
        # States of 1.x are observations of an agent, except for MAPPO's central critic.
        central = "value" if _algorithm(agent) == "mappo" else None
        modern["models"] = {
            role: model if role == central else _observing(model)
            for role, model in modern["models"].items()
        }
    return modern


def _modern_agent(agent: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an agent's settings under the names of skrl 2, and the changes in words."""
    names = dict(_RENAMED)
    if (
        "observation_preprocessor" in agent
    ):  # skrl 2's own meaning: the preprocessor of a critic's states
        del names["state_preprocessor"], names["state_preprocessor_kwargs"]
    changes = [f"{name} is {names[name]}" for name in agent if name in names]
    modern = {names.get(name, name): value for name, value in agent.items()}
    if "clip_predicted_values" in modern:
        clips = modern.pop("clip_predicted_values")
        modern["value_clip"] = modern.get("value_clip", VALUE_CLIP) if clips else 0.0
        changes.append(f"clip_predicted_values is value_clip = {modern['value_clip']}")
    if _algorithm(agent) in ON_POLICY and _algorithm(agent) != "cem":
        for name in ("random_timesteps", "learning_starts"):
            if name in modern:
                del modern[name]
                changes.append(f"{name} has no meaning here")
    return modern, changes


def _algorithm(agent: Mapping[str, Any]) -> str:
    return str(agent.get("class", "ppo")).lower()


def _observing(model: Any) -> Any:
    """Return a network's settings with OBSERVATIONS instead of STATES among its inputs."""
    if not isinstance(model, Mapping) or not isinstance(model.get("network"), list):
        return model
    layers = [
        {**layer, "input": re.sub(r"\bSTATES\b", "OBSERVATIONS", layer["input"])}
        if isinstance(layer, Mapping) and isinstance(layer.get("input"), str)
        else layer
        for layer in model["network"]
    ]
    return {**model, "network": layers}
