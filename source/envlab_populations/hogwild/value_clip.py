"""PPO's value loss whose values move by as much as its policy may in an update.

As CleanRL has it, and SLM-Lab 5 by ``clip_vloss``: half the mean of the larger square, that of the
error and that of the error of values which are clipped around those of the rollout. skrl's own
``value_clip`` takes the clipped ones alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def clipped_losses(agents: list[Any]) -> Any:
    """Return what makes the functions of torch that an update calls; ``agents`` holds its agent."""

    def of(stock: Any) -> Any:
        def loss(targets: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            agent = agents[-1]
            old, bound = agent.values_of(targets), float(agent.cfg.ratio_clip)
            near = old + (values - old).clamp(-bound, bound)
            larger = torch.maximum((values - targets).square(), (near - targets).square())
            return 0.5 * larger.mean()

        return SimpleNamespace(mse_loss=loss)

    return of


def with_old_values(stock: Any, agents: list[Any]) -> Any:
    """Return a class that knows the rollout's values of the returns which its loss is given."""

    class WithOldValues(stock):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            agents.append(self)
            self._old: list[tuple[torch.Tensor, torch.Tensor]] = []

        def update(self, **when: Any) -> None:
            draw, memory = self.memory.sample, self.memory

            def remembering(names: list[str], **how: Any) -> Any:
                parts = draw(names, **how)
                columns = names.index("returns"), names.index("values")
                self._old = [(part[columns[0]], part[columns[1]]) for part in parts]
                return parts

            memory.sample = remembering
            try:
                super().update(**when)
            finally:
                del memory.sample
                self._old = []

        def values_of(self, returns: torch.Tensor) -> torch.Tensor:
            """Return the rollout's values where a mini-batch has these returns."""
            return next(values for known, values in self._old if known is returns)

    return WithOldValues
