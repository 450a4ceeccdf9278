"""Members: what copies inherit and what they change, of learners of any library."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from envlab.state import restore, save
from envlab_populations.population.architecture import Architecture


@dataclass(frozen=True, kw_only=True)
class Genes:
    """What a copy may change besides its weights: plain data that can be sent."""

    hyperparameters: Mapping[str, float]
    """Its numbers: by path of ``agent.*``, or by skrl's names of ``agent.agent``."""
    architecture: Architecture | None = None
    """Shape of its networks; None where shapes do not change."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Genes:
        """Return the genes of a member's :meth:`Member.record`."""
        shape = record["architecture"]
        return cls(
            hyperparameters=dict(record["hyperparameters"]),
            architecture=None if shape is None else Architecture(**shape),
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    """How a copy differs from its parent, as plain data."""

    text: str
    """Its description, ``none`` if it does not."""
    genes: Genes
    """The copy's genes."""
    noise: tuple[int, ...] = ()
    """Positions of the weight matrices of its policy that get noise."""
    deviation: float = 0.0
    """Deviation of the noise, relative to the weights."""
    seed: int = 0
    """Seed of new weights and noise."""


class Nursery(abc.ABC):
    """Makes learners for a place of the population, or for all.

    Attributes:
        is_apart: Whether other processes do not have these learners, so that their networks are in
            this process's part of a checkpoint.
        device: Where they compute.
    """

    is_apart: bool
    device: torch.device

    @abc.abstractmethod
    def first_genes(self) -> Genes:
        """Return the genes of a member of the first generation."""

    @abc.abstractmethod
    def make(self, genes: Genes) -> Any:
        """Return a :class:`~envlab.learner.Learner` with fresh weights."""

    @abc.abstractmethod
    def child(self, change: Change, model: Mapping[str, Any], before: Any) -> Any:
        """Return a learner that inherits from another, and shares no tensor with it.

        Args:
            change: How it differs.
            model: The other's ``model_state``.
            before: The learner whose place it takes.
        """

    def state(self) -> dict[str, Any]:
        """Return what else the place must remember."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the counters of :meth:`state`, which also continue in other environments."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the rest, so that training continues exactly."""


@dataclass(kw_only=True)
class Member:
    """A learner and its descent. All processes know who it is; some may lack its learner."""

    nursery: Any = field(repr=False)
    """The :class:`Nursery` of its place; None if another process has it."""
    index: int
    """Its number."""
    genes: Genes
    learner: Any = field(repr=False)
    """The library's learner; None if another process trains it."""
    parent: int | None = None
    """Index of the member that it was copied from; None in the first generation."""
    mutation: str = "none"
    """How it differed from its parent."""
    copied: bool = False
    """Whether it took its place at the last meeting."""
    fitness: list[float] = field(default_factory=list)
    """Results of its evaluations, inherited ones included; NaN: unknown."""
    frames: int = 0
    """Environment steps of all processes that it learned from, including its ancestors'."""

    @classmethod
    def first(cls, nursery: Nursery, index: int) -> Member:
        """Return a member of the first generation."""
        genes = nursery.first_genes()
        return cls(nursery=nursery, index=index, genes=genes, learner=nursery.make(genes))

    @classmethod
    def of(
        cls, nursery: Any, record: Mapping[str, Any], saved: Mapping[str, Any] | None = None
    ) -> Member:
        """Return the member that :meth:`record` and :meth:`state` described.

        Args:
            nursery: The nursery of its place.
            record: Who it is.
            saved: Its learner's ``model_state`` as ``model``, and the rest of :meth:`state`; None
                if another process has it.

        Raises:
            CheckpointError: If it does not fit the configuration.
        """
        one = cls(
            nursery=nursery,
            genes=Genes.of(record),
            learner=None,
            fitness=list(record["fitness"]),
            frames=(saved or {}).get("frames", 0),
            **{name: record[name] for name in ("index", "parent", "mutation", "copied")},
        )
        if saved is not None:
            one.learner = nursery.make(one.genes)
            one.learner.load_models(saved)
            nursery.load(saved)
        return one

    def record(self) -> dict[str, Any]:
        """Return who it is, as plain data, which changes at meetings alone."""
        names = ("index", "parent", "mutation", "copied")
        return {
            **{name: getattr(self, name) for name in names},
            **dataclasses.asdict(self.genes),
            "fitness": list(self.fitness),
        }

    def whole(self) -> dict[str, Any]:
        """Return all that :meth:`of` needs, as record and as what was saved."""
        return {**self.record(), "model": self.learner.model_state()}

    def state(self) -> dict[str, Any]:
        """Return what only this process has of it, by reference."""
        own = {"model": self.learner.model_state()} if self.nursery.is_apart else {}
        state = {"frames": self.frames, "learner": save(self.learner), **self.nursery.state()}
        return state | own

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the rest of a member that :meth:`of` has made, so that it continues exactly."""
        restore(self.learner, state["learner"], self.nursery.device)
        self.nursery.set_state(state)

    def score(self, num_evaluations: int = 1) -> float:
        """Return the mean of its last evaluations; minus infinity before one."""
        recent = self.fitness[-num_evaluations:]
        return float(np.mean(recent)) if recent else -np.inf

    def child(
        self, change: Change, index: int, place: Member, model: Mapping[str, Any] | None
    ) -> Member:
        """Return a changed copy.

        Args:
            change: How it differs from this member.
            index: Its index.
            place: The member whose place it takes.
            model: Its learner's ``model_state``; None where another process has the place.
        """
        return dataclasses.replace(
            self,
            nursery=place.nursery,
            index=index,
            genes=change.genes,
            learner=None if model is None else place.nursery.child(change, model, place.learner),
            parent=self.index,
            mutation=change.text,
            copied=True,
            fitness=list(self.fitness),
        )

    def clone(self, index: int) -> Member:
        """Return an unchanged copy under another index."""
        same = Change(text=self.mutation, genes=self.genes)
        copy = self.child(same, index, self, self.learner.model_state())
        copy.parent = self.parent if index == self.index else self.index
        return copy

    def become(self, change: Change) -> None:
        """Change, and remain the same member, with another learner if it is here."""
        if self.learner is not None and (change.genes != self.genes or change.noise):
            model = self.learner.model_state()
            self.learner = self.nursery.child(change, model, self.learner)
        self.genes, self.mutation = change.genes, change.text


def adopted(given: Any, own: Any = None, names: frozenset[str] = frozenset()) -> Any:
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
