"""The environments of a rank's members, as one batch for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.readings import Readings
from envlab.distributed.statistics import WeightedMeans
from envlab.state import State
from envlab.training.metrics import EpisodeTracker
from envlab_populations.population.generations import share_of


class MemberEnvs:
    """Each member's environments, which its learner steps; nothing steps them all.

    Attributes:
        by_index: Environments by member.
        num_envs: Number of all environments of this rank.
    """

    STATE = State(parts=("by_index",))

    def __init__(
        self, size: int, context: DistributedContext, make: Callable[[DistributedContext], Any]
    ) -> None:
        """Make the environments of this rank's share of the members.

        Args:
            size: Number of members of all ranks.
            context: The process's context.
            make: Makes a member's environments for a context with the member's index as its rank.

        Raises:
            ConfigurationError: If ranks cannot share the members equally.
        """
        self.by_index = {
            index: make(replace(context, rank=index, world_size=1))
            for index in share_of(size, context)
        }
        self.num_envs = sum(env.num_envs for env in self.by_index.values())

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that all members' environments share, from the first one."""
        if name == "by_index":
            raise AttributeError(name)
        return getattr(next(iter(self.by_index.values())), name)

    @property
    def log_dir(self) -> Path | None:
        """Folder for the states of failed environments."""
        found: Path | None = next(iter(self.by_index.values())).log_dir
        return found

    @log_dir.setter
    def log_dir(self, directory: Path) -> None:
        for env in self.by_index.values():
            env.log_dir = directory

    def check_health(self) -> None:
        """Report environments that failed."""
        for env in self.by_index.values():
            env.check_health()

    def ask_health(self, readings: Readings) -> None:
        """Ask for nothing: the others still have to make their steps when one has made its own."""

    def close(self) -> None:
        """Close all."""
        for env in self.by_index.values():
            env.close()


class MembersTracker(EpisodeTracker):
    """Counts the episodes of the member whose turn it is, and those of all members together.

    Attributes:
        turn: Place on this rank of the member whose steps come next.
    """

    STATE = State(parts=("parts",))

    def __init__(self, parts: list[EpisodeTracker]) -> None:
        self.parts, self.turn = parts, 0
        self.means = WeightedMeans()

    def add_step(self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any]) -> None:
        """Add a step of the member's environments, see :class:`EpisodeTracker`."""
        self.parts[self.turn].add_step(rewards, ended, info)
