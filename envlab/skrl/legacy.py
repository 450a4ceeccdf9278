"""Names of skrl 1.x in agent files, mapped as the compatibility check of skrl 2's runner does."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from envlab.config.translator import NoEffect, Rows, Take, Translator
from envlab.skrl.library import ON_POLICY

logger = logging.getLogger(__name__)

VALUE_CLIP = 0.2
"""Default of 1.x for clipping predicted values."""
STYLE_WEIGHT, DISCRIMINATOR_SCALE = 1.0, 2.0
"""Defaults of 1.x for AMP's reward of the style."""


def _value_clip(file: Translator, key: str, default: Any) -> float:
    clip: float = file.number("agent.value_clip", VALUE_CLIP)
    return clip if file.flag(key) else 0.0


def _style_scale(file: Translator, key: str, default: Any) -> float:
    weight: float = file.number("agent.style_reward_weight", STYLE_WEIGHT)
    scale: float = file.number("agent.discriminator_reward_scale", DISCRIMINATOR_SCALE)
    return weight * scale


def _renamed(old: str, new: str) -> Rows:
    return {f"agent.{old}{end}": Take(f"agent.{new}{end}") for end in ("", "_kwargs")}


OBSERVING: Rows = _renamed("state_preprocessor", "observation_preprocessor")
"""For files in which these do not mean, as in skrl 2, the preprocessor of a critic's states."""
ROWS: Rows = {
    "agent.lambda": Take("agent.gae_lambda"),
    **_renamed("shared_state_preprocessor", "state_preprocessor"),
    **_renamed("amp_state_preprocessor", "amp_observation_preprocessor"),
    "agent.clip_predicted_values": Take("agent.value_clip", _value_clip),
    "agent.task_reward_weight": Take("agent.task_reward_scale"),
    "agent.style_reward_weight": Take("agent.style_reward_scale", _style_scale),
    "agent.discriminator_reward_scale": Take("agent.style_reward_scale", _style_scale),
}
_BEGINS_AT_ONCE = NoEffect("an algorithm with rollouts learns from the first")
ROLLOUTS: Rows = dict.fromkeys(("agent.random_timesteps", "agent.learning_starts"), _BEGINS_AT_ONCE)
TRAINER: Rows = {
    f"trainer.{name}": NoEffect("only skrl's own loop and window read it")
    for name in (
        *("headless", "render_interval", "disable_progressbar"),
        "close_environment_at_exit",
    )
}


def modernised(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent file's values under the names of skrl 2; changes are logged."""
    file = Translator(values, peer="skrl", file="the agent's file")
    algorithm = str(file.given("agent.class") or "ppo").lower()
    rows = ROWS if "observation_preprocessor" in file.names("agent") else ROWS | OBSERVING
    if algorithm in ON_POLICY and algorithm != "cem":
        rows = rows | ROLLOUTS
    modern = file.rewritten(rows | TRAINER)
    for line in file.lines():
        logger.info("%s.", line)
    is_old = any(f"agent.{name}" in rows for name in file.names("agent"))
    if is_old and isinstance(modern.get("models"), Mapping):
        # States of 1.x are observations of an agent, except for MAPPO's central critic.
        central = "value" if algorithm == "mappo" else None
        modern["models"] = {
            role: model if role == central else as_observations(model)
            for role, model in modern["models"].items()
        }
    return modern


def as_observations(models: Any) -> Any:
    """Return networks' settings with OBSERVATIONS instead of STATES among their inputs."""
    if isinstance(models, list):
        return [as_observations(one) for one in models]
    if not isinstance(models, Mapping):
        return models
    return {
        name: re.sub(r"\bSTATES\b", "OBSERVATIONS", value)
        if name == "input" and isinstance(value, str)
        else as_observations(value)
        for name, value in models.items()
    }
