"""Success: whether an episode reaches the task's goal, under Isaac Lab 3's name for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, bind, check_shapes
from envlab.envs.managers.sensor import SensorManager
from envlab.envs.masks import clear
from envlab.envs.vector_env import VectorEnv
from envlab.errors import name_term


@dataclass(kw_only=True)
class SuccessTermCfg(FunctionTermCfg):
    """``func(env, **params)`` returns bool, or a share from 0 to 1, ``(num_envs,)``."""


class SuccessManager:
    """Keeps the greatest success of each episode so far: a success is never lost again.

    The mean over the episodes that end is logged as ``Metrics/success_rate``, as in Isaac Lab 3.
    """

    def __init__(self, cfg: SuccessTermCfg | None, env: VectorEnv, sensors: SensorManager) -> None:
        self._function = None if cfg is None else bind(cfg, env, sensors)
        self._values = torch.zeros(env.num_envs, device=env.device)
        self._checked = False

    @property
    def values(self) -> torch.Tensor | None:
        """Success of the episodes so far, float32 ``(num_envs,)``; None if the task has none."""
        return None if self._function is None else self._values

    def compute(self) -> None:
        """Look at the state after a step."""
        if self._function is None:
            return
        try:
            now = self._function()
        except Exception as error:
            name_term(error, "success", "success")
            raise
        if not self._checked:
            check_shapes("success", ["success"], [now], len(self._values))
            self._checked = True
        torch.maximum(self._values, now.float(), out=self._values)

    def reset(self, mask: torch.Tensor) -> None:
        """Start new episodes in the environments of ``mask``."""
        if self._function is not None:
            clear(self._values, mask)

    def episode_values(self) -> dict[str, torch.Tensor]:
        """Return ``Metrics/success_rate`` of the episodes so far."""
        return {} if self._function is None else {"Metrics/success_rate": self._values}
