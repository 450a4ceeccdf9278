"""PPO's value loss with clipped values, whose limit is that of its policy.

As in CleanRL, and SLM-Lab 5's ``clip_vloss``: half the mean of the larger square of two errors,
that of the values, and that of the values clipped around the rollout's. skrl's own ``value_clip``
uses the clipped ones alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def clipped_losses(agents: list[Any]) -> Any:
    """Return a factory of torch's functions for an update; ``agents`` holds its agent."""

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
    """Return a class that finds the rollout's values of the returns in its loss."""

    class WithOldValues(stock):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            agents.append(self)
            self.old: list[tuple[torch.Tensor, torch.Tensor]] = []

        def update(self, **when: Any) -> None:
            draw, memory = self.memory.sample, self.memory

            def remembering(names: list[str], **how: Any) -> Any:
                parts = draw(names, **how)
                columns = names.index("returns"), names.index("values")
                self.old = [(part[columns[0]], part[columns[1]]) for part in parts]
                return parts

            memory.sample = remembering
            try:
                super().update(**when)
            finally:
                del memory.sample
                self.old = []

        def values_of(self, returns: torch.Tensor) -> torch.Tensor:
            """Return the rollout's values that belong to a mini-batch's returns."""
            return next(values for known, values in self.old if known is returns)

    return WithOldValues
