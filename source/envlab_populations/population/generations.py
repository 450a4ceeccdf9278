"""The loop of generations: members train, are compared, and give way to copies of the fitter."""

from __future__ import annotations

import abc
import dataclasses
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab_populations.population import lineage
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.strategy import make_strategy, ranking

logger = logging.getLogger(f"envlab.{__name__}")


class Generations(Learner):
    """A population in the training loop, whatever its members are.

    A subclass trains them (:meth:`train`), measures them (:meth:`measure`), decides how copies
    differ from their parents (:meth:`decide`), and makes the copies (:meth:`succeed`).

    Attributes:
        strategy: Chooses who copies whom.
        generations: What :mod:`.lineage` tells of each meeting.
    """

    stream = 0
    """Distinguishes its draws from those of others with the same seed."""

    def __init__(
        self, cfg: StrategyCfg, interval: int, seed: int, env: Any, context: DistributedContext
    ) -> None:
        """Count from the first generation.

        Args:
            cfg: Number of members, and the strategy's rules.
            interval: Iterations between two meetings.
            seed: Seed of all decisions.
            env: All environments of this process.
            context: The process's context.

        Raises:
            ConfigurationError: If the strategy's rules make no sense.
        """
        self._size, self._interval, self._seed = cfg.size, interval, seed
        self._env, self._context = env, context
        self.strategy = make_strategy(cfg)
        self.generations: list[dict[str, Any]] = []
        self._frames, self._since = 0, [0.0, 0.0]  # frames and seconds since the last meeting

    @abc.abstractmethod
    def train(self, number: int, on_step: OnStep) -> Iteration:
        """Have this process's members collect and learn; see :meth:`Learner.iterate`."""

    @abc.abstractmethod
    def measure(self, generation: int) -> tuple[list[float | None], list[dict[str, Any]]]:
        """Return all members' fitness, None if it is unknown, and what :mod:`.lineage` tells."""

    @abc.abstractmethod
    def decide(
        self, pairs: Iterator[tuple[int, int]], fittest: int, rng: np.random.Generator
    ) -> Any:
        """Return plain data on the next generation. Called on rank 0.

        Args:
            pairs: The places of members that give way, and of those that are copied there.
            fittest: The place of the fittest.
            rng: The generator to draw from.
        """

    @abc.abstractmethod
    def succeed(self, decided: Any, fittest: int) -> None:
        """Make the next generation, as :meth:`decide` has decided on rank 0."""

    def leading(self) -> dict[str, Any]:
        """Return the fields of an iteration's report that follow from the fittest member."""
        return {}

    def is_complete(self, number: int, record: Mapping[str, Any]) -> bool:
        """Return whether members give way after an iteration, of which there is a record."""
        return True

    def is_meeting(self, number: int) -> bool:
        """Return whether members meet after an iteration."""
        return number % self._interval == 0

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        iteration = self.train(number, on_step)
        frames = iteration.frames * self._context.world_size
        seconds = iteration.collect_s + iteration.learn_s
        self._frames += frames
        self._since = [self._since[0] + frames, self._since[1] + seconds]
        if self.is_meeting(number):
            self.meet(number)
        return dataclasses.replace(iteration, **self.leading())

    def meet(self, number: int) -> None:
        """Compare the members, and have copies of the fitter take the places of others."""
        generation = -(-number // self._interval)
        fitness, rows = self.measure(generation)
        ranked = ranking(fitness)
        fittest = ranked[-1] if ranked else 0
        record = {
            "generation": generation,
            "frames": self._frames,
            "elite": rows[fittest]["index"],
            "members": rows,
        }
        self.generations.append(record)
        logger.info("%s", lineage.table(record, self._since[0] / max(self._since[1], 1e-9)))
        self._since = [0.0, 0.0]
        if self.is_complete(number, record):
            rng = np.random.default_rng((self._seed, generation, self.stream))
            pairs, is_main = self.strategy.pairs(ranked, rng), self._context.is_main
            drawn = self.decide(pairs, fittest, rng) if is_main else None
            self.succeed(self._context.broadcast(drawn), fittest)

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Write all generations after a meeting, and return the last one's curves."""
        if not self.is_meeting(record.iteration) or not self.generations:
            return []
        lineage.write(self.generations, Path(self._env.log_dir or "."))
        return [Curve(record.frames, lineage.scalars(self.generations[-1]))]

    def check_size(self, size: int) -> None:
        """Refuse a checkpoint of a population of another size.

        Raises:
            CheckpointError: With both sizes.
        """
        if size != self._size:
            raise CheckpointError(
                f"The checkpoint is of a population of {size}, but --population_size is "
                f"{self._size}. Resume with the former."
            )
