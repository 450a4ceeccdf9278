"""What a way to train implements: a :class:`Learner` to train with, a :class:`Player` to play with.

The loop around the iterations stands once, in :mod:`envlab.training.loop`; a library's folder
says what happens within one.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch


class OnStep(Protocol):
    """What a learner calls after each step of its environments."""

    def __call__(
        self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any], /
    ) -> None:
        """Count a step.

        Args:
            rewards: ``(num_envs,)``.
            ended: Whether an episode ended, bool ``(num_envs,)``.
            info: What the environment returned.
        """


@dataclass(kw_only=True)
class Iteration:
    """What a learner tells about an iteration on one rank."""

    frames: int
    """Steps of this rank's environments in it, each environment counted."""
    collect_s: float
    """Time of the rollout, in seconds."""
    learn_s: float
    """Time of the update, in seconds."""
    learning_rate: float
    """The optimizer's learning rate."""
    losses: Mapping[str, float]
    """This rank's losses, by the library's names."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the library tells of it, the same on all ranks."""


@dataclass(kw_only=True)
class IterationRecord:
    """A line of ``metrics.jsonl``: an iteration over all ranks, in one schema for all libraries."""

    iteration: int
    """Iterations done, counted from the first run on."""
    frames: int
    """Environment steps of all ranks so far."""
    wall_s: float
    """Wall time so far, in seconds, resumed runs added up."""
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
    """What else the library tells of it."""


class Curve(NamedTuple):
    """Values for the event files, under the library's own tags."""

    step: int
    """Where on the curves, in what the library counts."""
    scalars: Mapping[str, float | None]
    """Values by tag; None is left out."""


class Learner(abc.ABC):
    """A library's algorithm on one rank, with its environments: all that is not the loop."""

    frame_budget: int | None = None
    """Frames of all ranks to end at, where iterations may differ in frames; None: iterations are
    counted."""
    tracker: Any = None
    """An :class:`~envlab.training.metrics.EpisodeTracker` that counts this rank's episodes in place
    of the loop's own, where these are not those of one batch of environments."""
    steps_alike = True
    """Whether the environments of all ranks make the same number of steps."""

    def start(self, total: int) -> None:
        """Prepare for the first iteration.

        Args:
            total: The iteration that the run ends at, for schedules.
        """

    @abc.abstractmethod
    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """Collect a rollout and learn from it.

        Args:
            number: Of the iteration; the first of a new run is 1.
            on_step: To be called after each step of the environments.
        """

    @abc.abstractmethod
    def model_state(self) -> dict[str, Any]:
        """Return networks, optimizer and normalisers: saved, and bit-identical on all ranks."""

    @abc.abstractmethod
    def load_models(self, values: Mapping[str, Any]) -> None:
        """Load a checkpoint, whose ``model`` is what :meth:`model_state` returned.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """

    def rank_state(self) -> dict[str, Any]:
        """Return what each rank has of its own, such as the memory of recurrent networks."""
        return {}

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""

    def noise_keys(self) -> dict[str, Any]:
        """Return keys of generators that actions are sampled with, beside the process's own."""
        return {}

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return what the library itself would plot of an iteration. Called on rank 0 only."""
        return []

    def progress(self, record: IterationRecord) -> str:
        """Return what the progress line should tell beside returns and speed."""
        return ""

    def merit(self, record: IterationRecord) -> float | None:
        """Return by what the best checkpoint is chosen, the greatest: the same on all ranks."""
        return record.mean_return

    def is_save_due(self, record: IterationRecord) -> bool:
        """Return whether a checkpoint is due that the intervals don't ask for: alike on all ranks.

        It is asked after :meth:`is_finished`.
        """
        return False

    def is_finished(self, record: IterationRecord) -> bool:
        """Return whether training may end before its budget does: the same on all ranks."""
        return False

    def close(self) -> None:
        """Close the environments that it has beside those it was built for."""


class Player(Protocol):
    """A trained policy."""

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the best actions, ``(num_envs, num_actions)``, for observations by group."""

    def export(self, directory: Path) -> list[Path]:
        """Write the policy into ``directory``; where it cannot be, print why and return nothing."""
