"""Curricula: functions that make the task harder as training progresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.managers.term import terms_of
from envlab.envs.vector_env import VectorEnv
from envlab.errors import name_term
from envlab.sim.host import on_host
from envlab.sim.recording import between_graphs


@dataclass(kw_only=True)
class CurriculumTermCfg(FunctionTermCfg):
    """``func(env, mask, **params)`` runs in every step, before ``mask`` is reset.

    The mask may be empty. A returned number or 0-d tensor is logged as ``Curriculum/<term>``, a
    dict of them by name as ``Curriculum/<term>/<name>``; None is not logged.
    """


class CurriculumManager:
    """Calls curriculum terms."""

    def __init__(self, cfg: Any, env: VectorEnv, sensors: SensorManager) -> None:
        self._functions = {
            name: bind(term, env, sensors, f"curriculum.{name}")
            for name, term in terms_of(cfg, CurriculumTermCfg).items()
        }
        self.active_terms = list(self._functions)
        """Names of the terms."""
        self._device = env.device
        self._values: dict[str, torch.Tensor] = {}

    @between_graphs  # terms may use values on the host, such as the number of steps
    def compute(self, mask: torch.Tensor) -> None:
        """Run all terms on the environments of ``mask``."""
        for name, function in self._functions.items():
            try:
                value = function(mask=mask)
            except Exception as error:
                name_term(error, "curriculum", name)
                raise
            if isinstance(value, dict):
                for part, number in value.items():
                    self._note(f"Curriculum/{name}/{part}", number)
            elif value is not None:
                self._note(f"Curriculum/{name}", value)

    def _note(self, name: str, value: Any) -> None:
        if name not in self._values:  # on the device, at a fixed address
            with torch.inference_mode(False):
                self._values[name] = torch.zeros((), device=self._device)
        if isinstance(value, torch.Tensor):
            self._values[name].copy_(value)
        else:
            self._values[name].fill_(value)

    def log(self) -> dict[str, torch.Tensor]:
        """Return the terms' latest values, 0-d; on a GPU in memory that the next step changes."""
        if not on_host(self._device):
            return dict(self._values)
        return {name: value.clone() for name, value in self._values.items()}
