"""Counts and reports environments that broke down, and stops the run if they are too many."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from envlab.errors import SimulationError
from envlab.sim.host import on_host

logger = logging.getLogger(__name__)


class FailureCounter:
    """Counts environments whose episodes were ended because their values were not finite.

    On a CPU, too many in a step stop the run in that step; on a GPU, to avoid waiting for it, at
    the next :meth:`report`.
    """

    def __init__(
        self,
        num_envs: int,
        max_bad_share: float,
        device: torch.device,
        explain: Callable[[], str],
        name_terms: Callable[[], str] = str,
    ) -> None:
        """Count from 0.

        Args:
            num_envs: Environments of this process.
            max_bad_share: See :class:`envlab.envs.cfg.NanGuardCfg`.
            device: Device of the counter.
            explain: Called when the run stops; returns what to add to the message.
            name_terms: Called on a CPU when an environment fails; returns a sentence on the terms
                that are not finite, empty where it is physics.
        """
        self._num_envs, self._share, self._explain = num_envs, max_bad_share, explain
        self._num_failed = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._name_terms, self._named = name_terms, ""
        self._num_steps = 0
        """Steps since failures were last reported."""

    def count_step(self) -> None:
        """Count a step, whether or not environments break down in it."""
        self._num_steps += 1

    def add(self, failed: torch.Tensor) -> None:
        """Count the environments that broke down in a step.

        Args:
            failed: Which, bool ``(num_envs,)``.

        Raises:
            SimulationError: On a CPU, if they are too many.
        """
        self._num_failed += failed
        if on_host(failed.device):
            self._named = self._named or self._name_terms()
            self._limit(int(failed.sum()), 1)

    def report(self) -> None:
        """Log how many failed since the last report. Waits for the GPU.

        Raises:
            SimulationError: If more than the configured share failed per step, on average.
        """
        failed, steps = int(self._num_failed.sum()), max(1, self._num_steps)
        named = self._named
        self.restart()
        if failed:
            logger.warning(
                "%d environment episodes were ended by non-finite values in the last %d steps.%s",
                failed,
                steps,
                f" {named}" if named else "",
            )
        self._limit(failed, steps)

    def restart(self) -> None:
        """Count from 0 again."""
        self._num_failed.zero_()
        self._named = ""
        self._num_steps = 0

    def _limit(self, failed: int, steps: int) -> None:
        """Stop the run if more than the allowed share failed; one may always fail."""
        if failed <= max(1.0, self._share * self._num_envs * steps):
            return
        raise SimulationError(
            f"{failed} of {self._num_envs} environments became non-finite within {steps} steps, "
            f"more than the share env.nan_guard.max_bad_share={self._share}. {self._explain()}"
        )
