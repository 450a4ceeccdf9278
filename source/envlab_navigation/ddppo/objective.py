"""The objective as one module, so that one ``DistributedDataParallel`` sees all gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, wrap_model
from envlab_navigation.ddppo.storage import Batch

Terms = Sequence[tuple[str, Any, float]]
"""Name, loss and weight of each term."""


class Objective(nn.Module):
    """A weighted sum of losses of a model, some of which have parameters."""

    def __init__(self, model: nn.Module, losses: Sequence[Any]) -> None:
        """Join the model with those of the losses that are modules."""
        super().__init__()
        self.model = model
        self.losses = nn.ModuleList(loss for loss in losses if isinstance(loss, nn.Module))

    def forward(
        self, batch: Batch, step: int, terms: Terms
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the sum over this rank's samples, and the losses' measures, detached."""
        output, _ = self.model(batch.obs, batch.previous_actions, batch.starts, batch.memory)
        total = output.values.new_zeros(())
        measured: dict[str, torch.Tensor] = {}
        for name, loss, weight in terms:
            value, found = loss.loss(step, batch, output)
            total = total + weight * value
            measured |= {f"{name}/{key}": torch.as_tensor(one) for key, one in found.items()}
        return total, measured


class Gradients:
    """The gradients of an objective over the samples of all ranks, which may have unequal numbers.

    DDP averages over ranks, so a rank's mean is weighted by its share of all samples.
    """

    def __init__(self, objective: Objective, context: DistributedContext) -> None:
        self.objective, self._context = objective, context
        self._trained = [values for values in objective.parameters() if values.requires_grad]
        self._ddp: PolicyDDP | None = None
        self._stage: object = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All parameters that are trained in some stage."""
        return self._trained

    def compute(
        self, batch: Batch, step: int, terms: Terms, *, stage: object, share: float
    ) -> Mapping[str, torch.Tensor]:
        """Set the gradients of the mean over all ranks' samples; return the losses' measures.

        Args:
            batch: This rank's samples.
            step: Step of the stage, for the losses.
            terms: The losses.
            stage: Number of the stage: some parameters may be unused in it.
            share: This rank's share of all samples, times the number of ranks.
        """
        for values in self._trained:
            values.grad = None
        if self._context.is_distributed and self._stage != stage:
            self._ddp = None  # before another reducer listens to the same parameters
            for values in self._trained:
                values.requires_grad_(True)
            with torch.random.fork_rng(devices=[]):  # losses may draw, and a resume would not
                self._ddp = wrap_model(self.objective, lambda module: module(batch, step, terms)[0])
            self._stage = stage
        total, measured = (self._ddp or self.objective)(batch, step, terms)
        (total * share).backward()
        return measured
