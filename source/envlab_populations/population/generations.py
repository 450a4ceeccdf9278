"""The loop of generations: members train, are compared, and give way to copies of the fitter.

A checkpoint's ``model`` has ``population``, which all processes know alike: its ``size``, who its
``members`` are (:meth:`.member.Member.record`), the ``leader`` that is to be
played, by place, and ``generations``; and ``networks`` by place, if all processes train them. Those
of members that only one process trains are in this process's part, ``members`` by place.
"""

from __future__ import annotations

import abc
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError, ConfigurationError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.state import State
from envlab_populations.population import lineage
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.member import Change, Member
from envlab_populations.population.strategy import make_strategy, ranking

logger = logging.getLogger(f"envlab.{__name__}")

KEPT = -1
"""The place of the fittest where it was measured, but has since changed or given way."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A member gives way to a copy of another, or changes."""

    target: int
    """Its place."""
    source: int
    """The other's place."""
    change: Change
    """How the copy differs."""
    stays: bool = False
    """Whether the member itself changes."""


def share_of(size: int, context: DistributedContext) -> range:
    """Return the places of the members that this process trains, if processes share them.

    Raises:
        ConfigurationError: If they cannot share them equally.
    """
    share = -(-size // context.world_size)
    if size % context.world_size:
        raise ConfigurationError(
            f"--population_size is {size}, which {context.world_size} processes cannot share "
            f"equally. Use a multiple, such as {share * context.world_size}."
        )
    return range(context.rank * share, (context.rank + 1) * share)


class Population(Learner):
    """Members in the training loop, whatever they are.

    A subclass makes them, trains them (:meth:`train`), measures them (:meth:`measure`) and decides
    how copies differ from their parents (:meth:`change`).

    Attributes:
        strategy: Chooses who copies whom.
        members: All members by place. Those that other processes train have no learner here.
        own: Places of those that this process trains.
        is_apart: Whether other processes train the others.
        generations: What :mod:`.lineage` tells of each meeting.
    """

    STATE = State(of_rank=("_since",), parts=("_members",))
    has_members = True
    renumbers = True
    """Whether copies get new indices, instead of those of the members that give way."""
    stream = 0
    """Distinguishes its draws from those of others with the same seed."""

    def __init__(
        self,
        cfg: StrategyCfg,
        interval: int,
        seed: int,
        env: Any,
        context: DistributedContext,
        *,
        is_apart: bool,
    ) -> None:
        """Count from the first generation.

        Args:
            cfg: Number of members, and the strategy's rules.
            interval: Iterations between two meetings.
            seed: Seed of all decisions.
            env: All environments of this process.
            context: The process's context.
            is_apart: Whether each process trains its share of the members.

        Raises:
            ConfigurationError: If the strategy's rules make no sense, or processes cannot share the
                members equally.
        """
        self._size, self._interval, self._seed = cfg.size, interval, seed
        self._env, self._context = env, context
        self.is_apart = is_apart
        self.own: Sequence[int] = share_of(cfg.size, context) if is_apart else range(cfg.size)
        self.strategy = make_strategy(cfg)
        self.members: list[Member] = []
        self.generations: list[dict[str, Any]] = []
        self._frames, self._since = 0, [0.0, 0.0]  # frames and seconds since the last meeting
        self._leader = 0
        self._kept: Member | None = None

    @abc.abstractmethod
    def train(self, number: int, on_step: OnStep) -> Iteration:
        """Have this process's members collect and learn; see :meth:`Learner.iterate`."""

    @abc.abstractmethod
    def measure(self, generation: int) -> dict[int, float | None]:
        """Note the fitness of this process's members, and return it by place; None: unknown."""

    @abc.abstractmethod
    def change(self, parent: Member, rng: np.random.Generator) -> Change:
        """Return how a copy of a member differs from it. Called on rank 0."""

    def leading(self) -> dict[str, Any]:
        """Return the fields of an iteration's report that follow from the leader."""
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
        scores, own = self.measure(generation), {place: self.members[place] for place in self.own}
        mine = {place: (scores[place], one.fitness, one.frames) for place, one in own.items()}
        measured = self._of_all(mine)
        for place, (_, fitness, frames) in measured.items():
            self.members[place].fitness, self.members[place].frames = fitness, frames
        ranked = ranking([score for score, *_ in measured.values()])
        fittest = ranked[-1] if ranked else 0
        told = lineage.record_of(self.members, fittest, generation, self._frames)
        self.generations.append(told)
        logger.info("%s", lineage.table(told, self._since[0] / max(self._since[1], 1e-9)))
        self._since = [0.0, 0.0]
        if self.is_complete(number, told):
            rng = np.random.default_rng((self._seed, generation, self.stream))
            pairs, is_main = self.strategy.pairs(ranked, rng), self._context.is_main
            copies = self.decide(pairs, fittest, rng) if is_main else []
            self.succeed(self._context.broadcast(copies), fittest)

    def decide(
        self, pairs: Iterator[tuple[int, int]], fittest: int, rng: np.random.Generator
    ) -> list[Copy]:
        """Return the copies of the next generation. Called on rank 0.

        Args:
            pairs: The places of members that give way, and of those whose copies take them.
            fittest: The place of the fittest.
            rng: The generator to draw from.
        """
        return [
            Copy(target=target, source=source, change=self.change(self.members[source], rng))
            for target, source in pairs
        ]

    def succeed(self, copies: Sequence[Copy], fittest: int) -> None:
        """Make the next generation, in which copies inherit what members were before it."""
        before, following = list(self.members), 1 + max(one.index for one in self.members)
        sources = {copy.source for copy in copies}
        here = [place for place in sources if before[place].learner is not None]
        models = {place: before[place].learner.model_state() for place in here}
        for member in before:
            member.copied = False
        for copy in copies:
            parent, place = before[copy.source], before[copy.target]
            if copy.stays:
                changed = dataclasses.replace(parent, fitness=list(parent.fitness))
                changed.become(copy.change)
                self.members[copy.target] = changed
                continue
            model, index = self._sent(models.get(copy.source), copy), place.index
            if self.renumbers:
                index, following = following, following + 1
            self.members[copy.target] = parent.child(copy.change, index, place, model)

    def _sent(self, model: Any, copy: Copy) -> Any:
        """Return what a copy inherits, on the process that has its place, and None on others."""
        if not self.is_apart:
            return model
        source, target = (place // len(self.own) for place in (copy.source, copy.target))
        if source != target:
            model = self._context.transfer(model, source=source, target=target)
        return model if self._context.rank == target else None

    def _of_all(self, mine: Mapping[int, T]) -> dict[int, T]:
        """Return what all processes say of their members, by place."""
        everyone = self._context.gather(mine) if self.is_apart else [mine]
        found = {place: value for part in everyone for place, value in part.items()}
        return {place: found[place] for place in sorted(found)}

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Write all generations after a meeting, and return the last one's curves."""
        if not self.is_meeting(record.iteration) or not self.generations:
            return []
        lineage.write(self.generations, Path(self._env.log_dir or "."))
        return [Curve(record.frames, lineage.scalars(self.generations[-1]))]

    @property
    def _members(self) -> dict[int, Member]:
        """This process's members by their place, as its part of a checkpoint names them."""
        own = {place: self.members[place] for place in self.own}
        is_mine = self.is_apart and self._kept is not None and self._kept.learner is not None
        return {**own, KEPT: self._kept} if is_mine else own  # type: ignore[dict-item]

    def model_state(self) -> dict[str, Any]:
        kept = {} if self._kept is None else {KEPT: self._kept}
        known = {} if self.is_apart else {**dict(enumerate(self.members)), **kept}
        return {
            "population": {
                "size": self._size,
                "leader": self._leader if self._kept is None else KEPT,
                "kept": None if self._kept is None else self._kept.record(),
                "frames": self._frames,
                "members": [member.record() for member in self.members],
                "generations": self.generations,
            },
            "networks": {place: one.learner.model_state() for place, one in known.items()},
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state, part = values["model"].get("population"), values["ranks"][self._context.rank]
        if state is None:
            raise CheckpointError(
                "The checkpoint is of a single learner, but --population_size is "
                f"{self._size}. Leave it out, or choose a checkpoint of a population."
            )
        records, kept = state["members"], state["kept"]
        if len(records) != self._size:
            raise CheckpointError(
                f"The checkpoint is of a population of {len(records)}, but --population_size is "
                f"{self._size}. Resume with the former."
            )
        then, now = set(records[0]["hyperparameters"]), set(self.members[0].genes.hyperparameters)
        if then != now:
            raise CheckpointError(
                f"The checkpoint's members differ in {', '.join(sorted(then)) or 'no number'}, but "
                f"the configuration's in {', '.join(sorted(now)) or 'none'}. Resume with the "
                "former: leave out overrides of population.ranges and "
                "agent.mutations.rl_hp_selection."
            )
        saved = {place: {"model": one} for place, one in values["model"]["networks"].items()}
        for place, own in (part["learner"]["members"] if part else {}).items():
            saved[place] = saved.get(place, {}) | own
        if any("model" not in saved.get(place, ()) for place in self.own):
            raise CheckpointError(
                "The checkpoint's members were trained by a process each, but here all processes "
                "train them together. Resume with --parallel=members."
            )
        for place, record in enumerate(records):
            mine = saved[place] if place in self.own else None
            self.members[place] = Member.of(self.members[place].nursery, record, mine)
        nursery = self.members[0].nursery
        self._kept = None if kept is None else Member.of(nursery, kept, saved.get(KEPT))
        self._leader = max(state["leader"], 0)
        self._frames, self.generations = state["frames"], list(state["generations"])


def dealt(saved: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members that processes train apart, of which each other process takes its own.

    Everything else that a checkpoint has per process starts afresh.
    """
    parts = [part["learner"]["members"] for part in saved["ranks"] if part]
    members = {place: one for part in parts for place, one in part.items()}
    return [{"learner": {"members": members}}] * num_ranks
