"""A part of a spec, whose keys are read one by one, so that none is ignored silently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from envlab.errors import ConfigurationError, did_you_mean

NO_EFFECT = {
    "agent": (),
    "agent.algorithm": (
        *("action_pdtype", "action_policy", "explore_var_spec", "policy_loss_coef"),
    ),
    "agent.memory": (),
    "agent.net": ("out_layer_activation",),
    "env": ("reward_clip", "frame_op_len", "image_downsize"),
    "meta": (
        *("eval_frequency", "rigorous_eval", "num_eval", "param_spec_process"),
        *("resume", "search", "cuda_offset"),
    ),
}
"""Keys of SLM-Lab's specs without effect here."""


class Part:
    """A dictionary of a spec; keys that nothing reads have no effect."""

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path, self._left, self._asked = path, dict(values), set(NO_EFFECT.get(path, ()))
        self._values = dict(values)

    def given(self, key: str) -> Any:
        """Return a value as the spec has it, without marking it as read."""
        return self._values.get(key)

    def take(self, key: str, default: Any = None) -> Any:
        """Return a value; null counts as absent."""
        self._asked.add(key)
        value = self._left.pop(key, None)
        return default if value is None else value

    def number(self, key: str, default: float | None, *, least: float = 0.0) -> Any:
        """Return a number of at least ``least``."""
        value = self.take(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            raise self.refusal(key, value, f"must be a number of at least {least:g}")
        return value

    def count(self, key: str, default: int | None, *, least: int = 1) -> Any:
        """Return a whole number; 1e6 is one."""
        value = self.number(key, default, least=least)
        if value is not None and (not math.isfinite(value) or value != int(value)):
            raise self.refusal(key, value, "must be a whole number")
        return None if value is None else int(value)

    def flag(self, key: str) -> bool:
        """Return true or false; false if absent."""
        value = self.take(key, False)
        if not isinstance(value, bool):
            raise self.refusal(key, value, "must be true or false")
        return value

    def choice(self, key: str, default: str | None, known: Mapping[Any, Any]) -> Any:
        """Return the value of one of the known names."""
        value = self.take(key, default)
        if not isinstance(value, str | None) or value not in known:
            names = [name for name in known if name is not None]
            text = ", ".join(map(repr, names))
            raise self.refusal(
                key, value, f"must be one of {text}.{did_you_mean(str(value), names)}"
            )
        return known[value]

    def part(self, key: str) -> dict[str, Any]:
        """Return a dictionary; an empty one if absent."""
        value = self.take(key, {})
        if not isinstance(value, dict):
            raise self.refusal(key, value, "must be a dictionary")
        return value

    def refuse(self, key: str, why: str, *, allowed: tuple[Any, ...] = ()) -> None:
        """Refuse a value that is neither null, false nor allowed."""
        value = self.take(key)
        if value not in (None, False, *allowed):
            raise self.refusal(key, value, why)

    def refusal(self, key: str, value: Any, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path}.{key} is {value!r:.80}, but {why.rstrip('.')}. Change it in the spec, or "
            f"by -s {self.path}.{key}=VALUE."
        )

    def without_effect(self) -> list[str]:
        known = NO_EFFECT.get(self.path, ())
        read = self._asked - set(known)
        return [
            f"{self.path}.{key}{'' if key in known else did_you_mean(key, read, 1)}"
            for key in self._left
        ]
