"""A seat of a population: what a member of any library trains with, and a copy does not bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from envlab.agent_cfg import SAVED_RATES, AgentCfg
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_state, seed_everything, set_generator_state
from envlab.distributed.statistics import WeightedMeans
from envlab.envs import BatchedEnv
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.state import restore, save
from envlab.training.metrics import EpisodeTracker, RunMetrics
from envlab_populations.population.member import Change, Genes, Nursery, adopted
from envlab_populations.population.ranges import Span, first_values, with_values

BuildLearner = Callable[[Any, BatchedEnv], Learner]
"""Builds a library's learner from an agent's configuration, as on one process."""


@dataclass(kw_only=True)
class Report:
    """A member's iteration, as reported to all ranks."""

    iteration: Iteration
    record: IterationRecord
    curves: list[Curve]
    fitness: float | None
    """Mean return of the episodes that ended since the last meeting; None if none did."""
    is_finished: bool


class Seat(Nursery):
    """Environments, generators and counters, with which a process trains one member after another.

    Attributes:
        index: Its place in the population.
        env: Its environments.
        tracker: Their episodes.
        metrics: Its counters and means.
    """

    is_apart = True

    def __init__(
        self,
        index: int,
        agent_cfg: AgentCfg,
        spans: Sequence[Span],
        env: BatchedEnv,
        build: BuildLearner,
    ) -> None:
        """Count from the first iteration.

        Args:
            index: Its place.
            agent_cfg: The configuration that all members begin with.
            spans: The numbers that members differ in.
            env: Its environments.
            build: Builds a library's learner.
        """
        self.index, self._agent_cfg, self._spans = index, agent_cfg, spans
        self.env, self.device, self._build = env, env.device, build
        self.tracker = EpisodeTracker(env.num_envs, env.device)
        self.metrics = RunMetrics(DistributedContext(), self.tracker)
        self._returns = [0.0, 0.0]  # of the episodes since the last meeting: sum and number
        self._total = 0
        self._generators: Any = None

    def first_genes(self) -> Genes:
        rng = np.random.default_rng((self._agent_cfg.seed, 0, self.index))
        return Genes(hyperparameters=first_values(self._spans, rng))

    def make(self, genes: Genes) -> Learner:
        """Return a learner with weights from the seat's seed, from which its draws then begin.

        Raises:
            ConfigurationError: If its configuration cannot be trained with.
        """
        seed = self._agent_cfg.seed + self.index
        seed_everything(seed)
        learner = self._made(genes)
        seed_everything(seed)
        self._generators = generator_state()
        return learner

    def _made(self, genes: Genes) -> Learner:
        return self._build(with_values(self._agent_cfg, genes.hyperparameters), self.env)

    def start(self, learner: Learner, total: int) -> None:
        """See :meth:`Learner.start`."""
        self._total = total
        with self._turn():
            learner.start(total)

    def iterate(
        self, learner: Learner, number: int, on_step: OnStep, together: WeightedMeans
    ) -> Report:
        """Have the member train for an iteration; see :meth:`Learner.iterate`.

        Args:
            learner: The member's learner.
            number: Number of the iteration.
            on_step: Called after each step of the environments.
            together: Means of all members, to which this one's episodes are added.
        """
        with self._turn():
            iteration = learner.iterate(number, on_step)
        together.add_all(self.tracker.means)
        record = self.metrics.reduce(number, iteration)
        if self.metrics.latest is not None:
            value, weight = self.metrics.latest
            self._returns = [self._returns[0] + value * weight, self._returns[1] + weight]
        return Report(
            iteration=iteration,
            record=record,
            curves=learner.curves(record),
            fitness=self._returns[0] / self._returns[1] if self._returns[1] else None,
            is_finished=learner.is_finished(record),
        )

    def meet(self) -> None:
        """Begin a new interval."""
        self._returns = [0.0, 0.0]

    def child(self, change: Change, model: Mapping[str, Any], before: Learner) -> Learner:
        """See :class:`Nursery`; replay memories stay here, and past returns were another policy's.

        The copy is loaded as in a resume, into a learner that is built with its own numbers, so
        that any of ``agent.*`` has the same effect as on the command line.
        """
        with self._turn():
            own, lengths = save(before), self.env.episode_length_buf.clone()
            learner = self._made(change.genes)
            self.env.episode_length_buf = lengths  # which rsl_rl's learner randomises
            fresh = learner.model_state()
            names = _configured_names(change.genes.hyperparameters)
            learner.load_models({"model": adopted(model, fresh, names)})
            restore(learner, own, self.env.device)
            learner.start(self._total)
        self.metrics.forget_returns()
        return learner

    def state(self) -> dict[str, Any]:
        """See :class:`Nursery`; the loop saves the environments and episodes."""
        own = {"generators": self._generators, "returns": list(self._returns)}
        return {**own, "metrics": self.metrics.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.metrics.set_state(state["metrics"])

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._generators, self._returns = state["generators"], list(state["returns"])

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Make the process's generators those of this seat."""
        set_generator_state(self._generators)
        yield
        self._generators = generator_state()


def _configured_names(paths: Mapping[str, float]) -> frozenset[str]:
    """Return the names in a learner's state of settings that differ between members."""
    names = {path.rpartition(".")[2] for path in paths}
    if any(name == "learning_rate" or name.endswith("_lr") for name in names):
        names |= set(SAVED_RATES)
    if "initial_entropy_value" in names:  # skrl's SAC keeps it there if it is not learned
        names.add("_entropy_coefficient")
    return frozenset(names)
