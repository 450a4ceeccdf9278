"""One of a population: a library's learner with all that it has of its own."""

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
from envlab.training.metrics import EpisodeTracker, RunMetrics
from envlab.training.population.cfg import with_values

BuildLearner = Callable[[Any, BatchedEnv], Learner]
"""Builds a library's learner from an agent's configuration, as on one process."""


@dataclass(kw_only=True)
class Report:
    """What all ranks get to know of a member's iteration."""

    iteration: Iteration
    record: IterationRecord
    curves: list[Curve]
    fitness: float | None
    """Mean return of the episodes that ended since the last meeting; None: of none."""
    is_finished: bool


class Member:
    """A learner that trains by itself, whatever the others of this process do.

    Attributes:
        index: Its place in the population, which it keeps.
        learner: The library's.
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
        """Build its learner, with weights and actions drawn from a seed of its own.

        Args:
            index: Its place.
            agent_cfg: The configuration that all members begin with.
            hyperparameters: Where its own differs.
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
            number: Of the iteration.
            on_step: To be called after each step of the environments.
            together: Of all members: gets this one's episodes.
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
        """Take over what another member has learned, with hyper-parameters of one's own.

        Environments, generators and replay memories stay; the returns of the past were another's.

        Args:
            model: What the other's learner returned as its ``model_state``.
            hyperparameters: From now on.
        """
        self.hyperparameters = dict(hyperparameters)
        with self._turn():
            own, lengths = self.learner.rank_state(), self.env.episode_length_buf.clone()
            self.learner = self._make()
            self.env.episode_length_buf = lengths  # which rsl_rl's begins with at random
            fresh = self.learner.model_state()
            self.learner.load_models(
                {"model": adopted(model, fresh, configured_names(hyperparameters))}
            )
            self.learner.set_rank_state(own)
            self.learner.start(self._total)
        self.metrics.forget_returns()

    def state(self) -> dict[str, Any]:
        """Return all of it, by reference; its environments and episodes are the loop's to save."""
        return {
            "model": self.learner.model_state(),
            "rank": self.learner.rank_state(),
            "generators": self._generators,
            "hyperparameters": dict(self.hyperparameters),
            "returns": list(self._returns),
            "metrics": self.metrics.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what was learned, and the counters.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """
        self.hyperparameters = dict(state["hyperparameters"])
        self.learner = self._make()
        self.learner.load_models({"model": state["model"]})
        self.metrics.set_state(state["metrics"])

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Restore the rest, after :meth:`load`, so that training goes on exactly."""
        self.learner.set_rank_state(state["rank"])
        self._generators, self._returns = state["generators"], list(state["returns"])

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the process's generators be this member's."""
        set_generator_state(self._generators)
        yield
        self._generators = generator_state()


def configured_names(paths: Collection[str]) -> frozenset[str]:
    """Return what a learner's state calls settings that members have of their own."""
    names = {path.rpartition(".")[2] for path in paths}
    if any(name == "learning_rate" or name.endswith("_lr") for name in names):
        names |= set(SAVED_RATES)
    if "initial_entropy_value" in names:  # skrl's SAC, which keeps it where it is not learned
        names.add("_entropy_coefficient")
    return frozenset(names)


def adopted(given: Any, own: Any, names: Collection[str]) -> Any:
    """Return a copy of a learner's state with the values of ``names`` as in one's own.

    Tensors are copied: ``Optimizer.load_state_dict`` (torch 2.13) keeps those that it is given.
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
