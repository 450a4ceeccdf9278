"""Says early in a run that averaged gradients wait for a slow network, and which setting helps."""

from __future__ import annotations

import logging
import time
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.learner import Learner

logger = logging.getLogger(__name__)

SHARE = 0.2
"""Share of an iteration from which waiting is worth a sentence."""
_TRIES = 3


class Waits:
    """Counts optimizer steps, each of which waits for one exchange of gradients between nodes.

    It measures such an exchange once, after the first iteration that is warm and took steps.
    """

    def __init__(self, learner: Learner, context: DistributedContext) -> None:
        several_nodes = context.world_size > context.local_world_size
        self._is_due = several_nodes and learner.averaging is None
        self._learner, self._context, self._steps = learner, context, 0
        optimizers = learner.all_optimizers() if self._is_due else []
        self._hooks = [one.register_step_post_hook(self._count) for one in optimizers]

    def end_iteration(self, seconds: float, *, is_warm: bool) -> None:
        """Log the advice if it is due and earned. Called by every rank, after each iteration.

        Args:
            seconds: Duration of the iteration.
            is_warm: Whether an iteration of this process came before it.
        """
        steps, self._steps = self._steps, 0
        if not (self._is_due and is_warm and steps):
            return
        self._is_due = False
        for hook in self._hooks:
            hook.remove()
        exchange_s = self._measure()
        waited_s = steps * exchange_s
        if self._context.is_main and waited_s > SHARE * seconds:
            logger.warning(
                "Of an iteration's %.2f s, some %.2f s are waiting for the other nodes: gradients "
                "are averaged %d times, %.0f ms each. With --grad_sync local, nodes meet once an "
                "iteration, or once in agent.sync_interval: see docs/distribute.md, Nodes far "
                "apart.",
                *(seconds, waited_s, steps, 1e3 * exchange_s),
            )

    def _count(self, *_: Any) -> None:
        self._steps += 1

    def _measure(self) -> float:
        """Return the seconds that ranks take to sum as many numbers as there are gradients."""
        parameters = {
            parameter
            for optimizer in self._learner.all_optimizers()
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        gradients = torch.zeros(sum(map(torch.Tensor.numel, parameters)))
        times = []
        for _ in range(_TRIES):
            start = time.perf_counter()
            self._context.sum(gradients)
            times.append(time.perf_counter() - start)
        return min(times)
