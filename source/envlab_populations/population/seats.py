"""All seats of a process as the training loop sees them: environments, episodes and folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.disk import RecordFile, surviving_disk_errors
from envlab.distributed.readings import Readings
from envlab.distributed.statistics import WeightedMeans
from envlab.learner import Curve
from envlab.run.directory import EVENTS_TAG
from envlab.run.event_file import EventFile, cut_events
from envlab.run.manifest import now, write_json
from envlab.run.records import METRICS, cut_metrics, line_of
from envlab.state import State
from envlab.training.curves import Curves
from envlab.training.loop import OWN_SCALARS
from envlab.training.metrics import EpisodeTracker
from envlab_populations.population.generations import share_of
from envlab_populations.population.seat import Report


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
            index: make(dataclasses.replace(context, rank=index, world_size=1))
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


class MemberFolders:
    """A folder for each member in the run directory, with the files of a complete run.

    ``members/<index>/`` holds ``run.json``, ``metrics.jsonl`` and event files, so that ``envlab
    compare`` and TensorBoard read members as they read runs. Rank 0 writes them all.
    """

    def __init__(self, run: Path, facts: Mapping[str, Any], reports: Mapping[int, Report]) -> None:
        """Make them, or continue in them if the run continues.

        Args:
            run: The run directory.
            facts: Facts in all members' manifests.
            reports: Reports of the next iteration; records of it and later ones are removed.
        """
        self._files = {}
        for index, report in reports.items():
            folder = run / "members" / f"{index:02}"
            with surviving_disk_errors(folder, f"{folder} could not be made", "The run continues."):
                folder.mkdir(parents=True, exist_ok=True)
                cut_metrics(folder, report.record.iteration - 1)
                cut_events(folder, EVENTS_TAG, report.record.frames - report.iteration.frames)
                if not (folder / "run.json").exists():
                    told = {**facts, "member": index, "created_at": now()}
                    write_json(folder / "run.json", told)
                records = RecordFile(folder / METRICS, f"member {index}'s metrics")
                self._files[index] = (records, Curves(EventFile(folder)))

    def write(self, reports: Mapping[int, Report]) -> None:
        """Append an iteration of each member."""
        for index, (records, curves) in self._files.items():
            record = reports[index].record
            records.append(line_of(dataclasses.asdict(record)))
            own = {f"envlab/{name}": getattr(record, name) for name in OWN_SCALARS}
            for curve in (Curve(record.frames, own | record.episode), *reports[index].curves):
                curves.add(curve.step, curve.scalars)
            curves.close()  # writes the waiting values
