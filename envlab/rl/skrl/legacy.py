"""Names of skrl 1.x in agent files, mapped as the compatibility check of skrl 2's runner does."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Mapping
from typing import Any

from envlab.rl.skrl.library import ON_POLICY

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
"""What 1.x clipped predicted values with where nothing else was said."""


def modernised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent file's values under the names of skrl 2; what changed is logged."""
    modern = copy.deepcopy(dict(values))
    agent = modern.get("agent")
    if not isinstance(agent, dict):
        return modern
    said = []
    renamed: dict[str, Any] = {}
    for name, value in agent.items():
        new = _RENAMED.get(name) or name
        if name.startswith("state_preprocessor") and "observation_preprocessor" in agent:
            new = name  # skrl 2's own meaning: what a critic's states go through
        if new != name:
            said.append(f"{name} is {new}")
        renamed[new] = value
    if "clip_predicted_values" in renamed:
        clips = renamed.pop("clip_predicted_values")
        renamed["value_clip"] = renamed.get("value_clip", VALUE_CLIP) if clips else 0.0
        said.append(f"clip_predicted_values is value_clip = {renamed['value_clip']}")
    if str(renamed.get("class", "ppo")).lower() in ON_POLICY:
        for name in ("random_timesteps", "learning_starts"):
            if name in renamed and str(renamed.get("class", "ppo")).lower() != "cem":
                del renamed[name]
                said.append(f"{name} has no meaning here")
    modern["agent"] = renamed
    if said and isinstance(modern.get("models"), dict):
        algorithm = str(renamed.get("class", "ppo")).lower()
        modern["models"] = {
            # What 1.x called states is what an agent observes, but for MAPPO's central critic.
            role: model if (algorithm, role) == ("mappo", "value") else _observing(model)
            for role, model in modern["models"].items()
        }
    if said:
        logger.info("The agent's configuration is for skrl 1.x; in skrl 2: %s.", ", ".join(said))
    return modern


def _observing(model: Any) -> Any:
    """Return a network's settings with OBSERVATIONS in place of STATES among its inputs."""
    if not isinstance(model, dict) or not isinstance(model.get("network"), list):
        return model
    layers = [
        {**layer, "input": re.sub(r"\bSTATES\b", "OBSERVATIONS", layer["input"])}
        if isinstance(layer, dict) and isinstance(layer.get("input"), str)
        else layer
        for layer in model["network"]
    ]
    return {**model, "network": layers}
