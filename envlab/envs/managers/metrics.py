"""Metrics: values of each episode that are logged and have no weight, as mjlab's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind, check_shapes
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.masks import clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import name_term
from envlab.state import State


@dataclass(kw_only=True)
class MetricsTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns ``(num_envs,)``; logged as ``Metrics/<term>``."""

    reduce: Literal["mean", "last", "max", "sum"] = "mean"
    """What becomes of an episode's values, one a step; the log has the mean over episodes."""


class MetricsManager:
    """Reduces metric terms over each episode so far."""

    STATE = State(per_env_by_name=("_values",))

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._terms = terms_of(cfg, MetricsTermCfg)
        self._functions = {
            name: bind(term, env, sensors, f"metrics.{name}") for name, term in self._terms.items()
        }
        self.active_terms = list(self._terms)
        """Names of the terms."""
        self._num_envs = env.num_envs
        self._values = {
            name: torch.zeros(env.num_envs, 2, device=env.device) for name in self._terms
        }
        """The reduced value and the number of steps, by term."""
        self._checked = False

    def compute(self) -> None:
        """Take the values of a step."""
        for name, function in self._functions.items():
            try:
                now = function()
            except Exception as error:
                name_term(error, "metric", name)
                raise
            if not self._checked:
                check_shapes("metric", [name], [now], self._num_envs)
            value, steps = self._values[name].unbind(1)
            reduce = self._terms[name].reduce
            if reduce == "max":
                now = torch.where(steps == 0.0, now, torch.maximum(value, now))
            elif reduce != "last":
                now = value + now
            value.copy_(now)
            steps += 1.0
        self._checked = True

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Metrics/<term>``: the terms' values of the episodes so far, ``(num_envs,)``."""
        found = {}
        for name, table in self._values.items():
            value, steps = table.unbind(1)
            is_mean = self._terms[name].reduce == "mean"
            found[f"Metrics/{name}"] = value / steps.clamp(min=1.0) if is_mean else value
        return found

    def reset(self, mask: torch.Tensor) -> None:
        """Start new episodes in the environments of ``mask``."""
        for table in self._values.values():
            clear(table, mask)

    def before_restore(self) -> None:
        """Start from zero, like terms that were not saved."""
        for table in self._values.values():
            table.zero_()
