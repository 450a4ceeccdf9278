"""A member of a population: a library's learner with its complete state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from envlab.agent_cfg import SAVED_RATES, AgentCfg
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_state, seed_everything, set_generator_state
from envlab.distributed.statistics import WeightedMeans
from envlab.envs import BatchedEnv
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.state import restore, save
from envlab.training.metrics import EpisodeTracker, RunMetrics
from envlab_populations.population.cfg import with_values

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


class Member:
    """A learner that trains independently of the others in this process.

    Attributes:
        index: Its place in the population, which it keeps.
        learner: The library's learner.
        hyperparameters: Its own numbers, by path of ``agent.*``.
        tracker: Its episodes.
        metrics: Its counters and means.
    """

    def __init__(
        self,
        index: int,
        agent_cfg: AgentCfg,
        hyperparameters: Mapping[str, float],
        env: BatchedEnv,
        build: BuildLearner,
    ) -> None:
        """Build its learner, with weights and actions drawn from its own seed.

        Args:
            index: Its place.
            agent_cfg: The configuration that all members begin with.
            hyperparameters: Its own values, which replace some of these.
            env: Its environments.
            build: Builds its learner.

        Raises:
            ConfigurationError: If its configuration cannot be trained with.
        """
        self.index, self._agent_cfg, self._build, self.env = index, agent_cfg, build, env
        self.hyperparameters = dict(hyperparameters)
        self.tracker = EpisodeTracker(env.num_envs, env.device)
        self.metrics = RunMetrics(DistributedContext(), self.tracker)
        self._returns = [0.0, 0.0]  # of the episodes since the last meeting: sum and number
        self._total = 0
        seed = agent_cfg.seed + index
        seed_everything(seed)
        self.learner = self._make()
        seed_everything(seed)
        self._generators = generator_state()

    def _make(self) -> Learner:
        return self._build(with_values(self._agent_cfg, self.hyperparameters), self.env)

    def start(self, total: int) -> None:
        """See :meth:`Learner.start`."""
        self._total = total
        with self._turn():
            self.learner.start(total)

    def iterate(self, number: int, on_step: OnStep, together: WeightedMeans) -> Report:
        """Train for an iteration; see :meth:`Learner.iterate`.

        Args:
            number: Number of the iteration.
            on_step: Called after each step of the environments.
            together: Means of all members, to which this one's episodes are added.
        """
        with self._turn():
            iteration = self.learner.iterate(number, on_step)
        together.add_all(self.tracker.means)
        record = self.metrics.reduce(number, iteration)
        if self.metrics.latest is not None:
            value, weight = self.metrics.latest
            self._returns = [self._returns[0] + value * weight, self._returns[1] + weight]
        return Report(
            iteration=iteration,
            record=record,
            curves=self.learner.curves(record),
            fitness=self._returns[0] / self._returns[1] if self._returns[1] else None,
            is_finished=self.learner.is_finished(record),
        )

    def meet(self) -> None:
        """Begin a new interval."""
        self._returns = [0.0, 0.0]

    def become(self, model: Mapping[str, Any], hyperparameters: Mapping[str, float]) -> None:
        """Take over another member's networks, with this member's own hyper-parameters.

        Environments, generators and replay memories stay; past returns were another policy's.

        Args:
            model: The ``model_state`` of the other's learner.
            hyperparameters: The new hyper-parameters.
        """
        self.hyperparameters = dict(hyperparameters)
        with self._turn():
            own, lengths = save(self.learner), self.env.episode_length_buf.clone()
            self.learner = self._make()
            self.env.episode_length_buf = lengths  # which rsl_rl's learner randomises
            fresh = self.learner.model_state()
            self.learner.load_models(
                {"model": adopted(model, fresh, configured_names(hyperparameters))}
            )
            restore(self.learner, own, self.env.device)
            self.learner.start(self._total)
        self.metrics.forget_returns()

    def state(self) -> dict[str, Any]:
        """Return all of its state, by reference; the loop saves its environments and episodes."""
        return {
            "model": self.learner.model_state(),
            "learner": save(self.learner),
            "generators": self._generators,
            "hyperparameters": dict(self.hyperparameters),
            "returns": list(self._returns),
            "metrics": self.metrics.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the networks, and the counters.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """
        self.hyperparameters = dict(state["hyperparameters"])
        self.learner = self._make()
        self.learner.load_models({"model": state["model"]})
        self.metrics.set_state(state["metrics"])

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the rest, after :meth:`load`, so that training continues exactly."""
        restore(self.learner, state["learner"], self.env.device)
        self._generators, self._returns = state["generators"], list(state["returns"])

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Make the process's generators those of this member."""
        set_generator_state(self._generators)
        yield
        self._generators = generator_state()


def configured_names(paths: Collection[str]) -> frozenset[str]:
    """Return the names in a learner's state of settings that differ between members."""
    names = {path.rpartition(".")[2] for path in paths}
    if any(name == "learning_rate" or name.endswith("_lr") for name in names):
        names |= set(SAVED_RATES)
    if "initial_entropy_value" in names:  # skrl's SAC keeps it there if it is not learned
        names.add("_entropy_coefficient")
    return frozenset(names)


def adopted(given: Any, own: Any = None, names: Collection[str] = ()) -> Any:
    """Return a copy of a learner's state with the values of ``names`` from one's own state.

    Tensors are copied, as ``Optimizer.load_state_dict`` (torch 2.13) keeps those that it is given.
    """
    if isinstance(given, Mapping):
        there = own if isinstance(own, Mapping) else {}
        return {
            name: there[name]
            if name in names and name in there
            else adopted(value, there.get(name), names)
            for name, value in given.items()
        }
    if isinstance(given, (list, tuple)):
        others = own if isinstance(own, (list, tuple)) and len(own) == len(given) else given
        parts = [adopted(one, other, names) for one, other in zip(given, others, strict=True)]
        return type(given)(parts)
    return given.detach().clone() if isinstance(given, torch.Tensor) else given
