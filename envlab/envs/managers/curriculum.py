"""Curricula: functions that make the task harder as training goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.vector_env import VectorEnv


@dataclass(kw_only=True)
class CurriculumTermCfg(FunctionTermCfg):
    """``func(env, mask, **params)`` runs in every step, before ``mask`` is reset.

    The mask may be empty. What it returns, a number or a 0-d tensor, is logged as
    ``Curriculum/<term>``; None is not.
    """


class CurriculumManager:
    """Calls curriculum terms."""

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._functions = {
            name: bind(term, env, sensors)
            for name, term in terms_of(cfg, CurriculumTermCfg).items()
        }
        self._values: dict[str, torch.Tensor] = {}

    @property
    def active_terms(self) -> list[str]:
        """Names of the terms."""
        return list(self._functions)

    def compute(self, mask: torch.Tensor) -> None:
        """Run all terms on the environments of ``mask``."""
        for name, function in self._functions.items():
            value = function(mask=mask)
            if value is not None:
                self._values[f"Curriculum/{name}"] = torch.as_tensor(value, dtype=torch.float32)

    def log(self) -> dict[str, torch.Tensor]:
        """Return the terms' latest values."""
        return dict(self._values)
