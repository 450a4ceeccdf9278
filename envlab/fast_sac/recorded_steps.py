"""Gradient steps as graphs: one for steps of the critics alone, and one for those of the policy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from envlab.fast_sac.replay import Batch
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates

GradientStep = Callable[[Batch, bool], torch.Tensor]
"""Takes a step with a batch, with the policy or without, and returns losses, ``(num_losses,)``."""


class RecordedSteps:
    """Takes gradient steps with batches of one size."""

    def __init__(
        self,
        step: GradientStep,
        optimizers: Sequence[torch.optim.Optimizer],
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_required: bool = False,
    ) -> None:
        """Record each kind of step from its first ones on.

        Args:
            step: See :data:`GradientStep`; it reads nothing on the host.
            optimizers: Of the networks that it changes.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether a step that cannot be recorded is an error.
        """
        self._step, self._optimizers = step, optimizers
        self._batch: Batch | None = None
        self._rates: list[float] = []
        self.recordings = {
            with_policy: recording_of_updates(
                functools.partial(self._run, with_policy), new_graphs, is_required=is_required
            )
            for with_policy in (False, True)
        }
        self.forget()

    def forget(self) -> None:
        """Record again: optimizers have other memory, such as a checkpoint's."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["capturable"] = True
        for recording in self.recordings.values():
            recording.forget()

    def __call__(self, batch: Batch, with_policy: bool) -> torch.Tensor:
        """Take a step; see :data:`GradientStep`."""
        rates = [group["lr"] for one in self._optimizers for group in one.param_groups]
        if rates != self._rates:
            self._rates = rates
            self.forget()
        if self._batch is None:
            self._batch = Batch(*(values.clone() for values in batch))
        else:
            torch._foreach_copy_(list(self._batch), list(batch))
        losses: torch.Tensor = self.recordings[with_policy].run()
        return losses

    def _run(self, with_policy: bool) -> torch.Tensor:
        assert self._batch is not None
        return self._step(self._batch, with_policy)
