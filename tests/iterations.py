"""Iterations of a learner as the training loop makes them, without its files."""

from __future__ import annotations

from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.learner import Iteration, IterationRecord, Learner
from envlab.training.metrics import EpisodeTracker, RunMetrics


class Iterations:
    """Makes a learner's iterations, and asks for what the loop wants to know in each rollout."""

    def __init__(self, learner: Learner, env: Any, num_steps: int) -> None:
        self._learner, self._env, self._num_steps = learner, env, num_steps
        self._tracker = EpisodeTracker(env.num_envs, env.device)
        self._metrics = RunMetrics(DistributedContext(), self._tracker)
        self._number = self._steps_left = 0

    def make(self) -> Iteration:
        """Make an iteration, up to where its metrics are reduced."""
        self._number += 1
        self._steps_left = self._num_steps
        iteration = self._learner.iterate(self._number, self._on_step)
        self._learner.readings.read()
        self._env.check_health()
        return iteration

    def record(self, iteration: Iteration) -> IterationRecord:
        """Return what the loop writes about it."""
        return self._metrics.reduce(self._number, iteration)

    def make_without_waits(self) -> int:
        """Make an iteration in which an NVIDIA GPU lets the host wait in readings alone.

        Returns:
            How often that was.
        """
        readings, real, number = self._learner.readings, self._learner.readings.read, 0

        def read(values: torch.Tensor | None = None) -> Any:
            nonlocal number
            number += values is not None
            torch.cuda.set_sync_debug_mode("default")
            try:
                return real(values)
            finally:
                torch.cuda.set_sync_debug_mode("error")

        readings.read = read  # type: ignore[method-assign]
        torch.cuda.set_sync_debug_mode("error")
        try:
            self.make()
        finally:
            torch.cuda.set_sync_debug_mode("default")
            readings.read = real  # type: ignore[method-assign]
        return number

    def _on_step(self, *step: Any) -> None:
        self._tracker.add_step(*step)
        self._steps_left -= 1
        if self._steps_left == 0:
            self._env.ask_health(self._learner.readings)
            self._tracker.means.ask(self._learner.readings)
