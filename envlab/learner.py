"""Interfaces of a training library: a :class:`Learner` for training, a :class:`Player` for play.

The loop over iterations is shared, in :mod:`envlab.training.loop`; a library's folder implements
a single iteration.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple, Protocol

import torch

from envlab.distributed.readings import Readings
from envlab.errors import ConfigurationError
from envlab.state import State


class OnStep(Protocol):
    """A callback for each step of a learner's environments."""

    def __call__(
        self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any], /
    ) -> None:
        """Count a step.

        Args:
            rewards: ``(num_envs,)``.
            ended: Whether an episode ended, bool ``(num_envs,)``.
            info: The environment's info.
        """


@dataclass(kw_only=True)
class Iteration:
    """A learner's report on an iteration on one rank."""

    frames: int
    """Steps of this rank's environments in it, counting each environment."""
    collect_s: float
    """Time of the rollout, in seconds."""
    learn_s: float
    """Time of the update, in seconds."""
    learning_rate: float
    """The optimizer's learning rate."""
    losses: Mapping[str, float]
    """This rank's losses, by the library's names."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The library's further information on it, the same on all ranks."""

    @classmethod
    def joined(cls, parts: Sequence[Iteration]) -> Iteration:
        """Return a report on successive iterations: sums, mean losses, and the last one's rest."""
        last = parts[-1]
        return cls(
            frames=sum(part.frames for part in parts),
            collect_s=sum(part.collect_s for part in parts),
            learn_s=sum(part.learn_s for part in parts),
            learning_rate=last.learning_rate,
            losses={
                name: fmean(part.losses[name] for part in parts if name in part.losses)
                for name in last.losses
            },
            details=last.details,
        )


@dataclass(kw_only=True)
class IterationRecord:
    """A line of ``metrics.jsonl``: an iteration over all ranks, in one schema for all libraries."""

    iteration: int
    """Iterations done, counted from the first run."""
    frames: int
    """Environment steps of all ranks so far."""
    wall_s: float
    """Wall time so far, in seconds, summed over resumed runs."""
    fps: float
    """Frames of all ranks per second of this iteration."""
    collect_s: float
    """Time of this iteration's rollouts on rank 0, in seconds."""
    learn_s: float
    """Time of this iteration's updates on rank 0, in seconds."""
    mean_return: float | None
    """Mean undiscounted return of the last 100 or more episodes of all ranks; null before one."""
    mean_episode_length: float | None
    """Mean length of the same episodes, in steps."""
    learning_rate: float
    """The optimizer's learning rate."""
    losses: dict[str, float]
    """Losses by the library's names, averaged over ranks."""
    episode: dict[str, float]
    """The environments' own statistics, over the episodes of this iteration."""
    details: dict[str, Any] = field(default_factory=dict)
    """The library's further information on it."""


class Curve(NamedTuple):
    """Values for the event files, under the library's own tags."""

    step: int
    """Position on the curves, in the library's unit."""
    scalars: Mapping[str, float | None]
    """Values by tag; None is skipped."""


class Learner(abc.ABC):
    """A library's algorithm on one rank, with its environments: everything but the loop.

    What a resume needs beside :meth:`model_state` is declared as :attr:`STATE`: the memory of
    recurrent networks, a replay memory, running returns.
    """

    STATE: ClassVar[State] = State(shared=("averaging.velocity",))
    """The attributes to save, by what they belong to; see :mod:`envlab.state`."""
    frame_budget: int | None = None
    """Frames of all ranks after which to end, if iterations may differ in frames; None: iterations
    are counted."""
    tracker: Any = None
    """An :class:`~envlab.training.metrics.EpisodeTracker` that counts this rank's episodes instead
    of the loop's own, if they are not those of one batch of environments."""
    averaging: Any = None
    """An :class:`~envlab.training.averaging.Averaging` with the learners of other ranks, if it
    learns alone (``--grad_sync local``)."""
    steps_alike = True
    """Whether the environments of all ranks are one batch, which makes the same number of steps
    everywhere: the audit then compares what they declare as shared."""
    has_members = False
    """Whether its checkpoints are of several members, see :mod:`envlab.run.packing`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "rank_state" in vars(cls):
            raise ConfigurationError(
                f"{cls.__name__} has rank_state(), which envlab no longer calls. Declare what a "
                'resume needs: STATE = State(per_env=("memory",)), see CONTRIBUTING.md.'
            )

    @functools.cached_property
    def readings(self) -> Readings:
        """What the loop asks of the device in a rollout; read where the learner waits anyway."""
        return Readings()

    def start(self, total: int) -> None:
        """Prepare for the first iteration.

        Args:
            total: The last iteration of the run, for schedules.
        """

    @abc.abstractmethod
    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """Collect a rollout and learn from it.

        Args:
            number: Number of the iteration; the first of a new run is 1.
            on_step: Must be called after each step of the environments.
        """

    @abc.abstractmethod
    def model_state(self) -> dict[str, Any]:
        """Return networks, optimizer and normalisers: saved, and bit-identical on all ranks."""

    @abc.abstractmethod
    def load_models(self, values: Mapping[str, Any]) -> None:
        """Load a checkpoint, whose ``model`` is a result of :meth:`model_state`.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """

    def all_optimizers(self) -> Sequence[torch.optim.Optimizer]:
        """Return its optimizers; ranks that learn alone average their parameters and rates."""
        return []

    def follow_rates(self) -> None:
        """Take over learning rates that were set in the optimizers."""

    def noise_keys(self) -> dict[str, Any]:
        """Return keys of generators for sampling actions, in addition to the process's own."""
        return {}

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return the library's own curves for an iteration. Called only on rank 0."""
        return []

    def progress(self, record: IterationRecord) -> str:
        """Return the progress line's text in addition to returns and speed."""
        return ""

    def merit(self, record: IterationRecord) -> float | None:
        """Return the score by which the best checkpoint is chosen: the same on all ranks."""
        return record.mean_return

    def is_save_due(self, record: IterationRecord) -> bool:
        """Return whether a checkpoint is due outside of the intervals: the same on all ranks.

        It is called after :meth:`is_finished`.
        """
        return False

    def is_finished(self, record: IterationRecord) -> bool:
        """Return whether training may end before its budget is used: the same on all ranks."""
        return False

    def close(self) -> None:
        """Close its environments in addition to those for which it was built."""


class Player(Protocol):
    """A trained policy."""

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the best actions, ``(num_envs, num_actions)``, for observations by group."""

    def export(self, directory: Path) -> list[Path]:
        """Write the policy to ``directory``; if that fails, print why and return nothing."""
