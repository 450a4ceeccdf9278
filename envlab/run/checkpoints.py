"""The folder ``checkpoints/`` of a run: ``model_<iteration>.pt``, ``best.pt`` and ``latest.pt``.

The last two are second names of a file (hard links, or copies where the file system has none), so
the best checkpoint outlives the newest ones that are kept.

A guest may train several members together. ``model.population`` then has their number (``size``),
who they are (``members``), and the place of the member to play (``leader``; a ``kept`` member has
no place). Networks are in ``model.networks`` by place, or, if a process trains its own members, in
its part.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envlab.distributed.checkpoint import load_checkpoint, save_checkpoint
from envlab.distributed.disk import NO_ROOM, surviving_disk_errors, sync_folder, whole_file
from envlab.errors import CheckpointError
from envlab.run.old_states import converted

logger = logging.getLogger(__name__)

_NAME = re.compile(r"model_(\d+)\.pt")

Accept = Callable[[Mapping[str, Any], Path], None]
"""Raises CheckpointError to reject a checkpoint, given its contents and its path."""

_COUNTS = ("iteration", "frames", "seed", "world_size", "num_envs")
_PARTS: dict[str, type] = {
    "model": dict,
    "metrics": dict,
    "ranks": list,
    "services": dict,
    "learning_rate_factor": float,
}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return a checkpoint's contents with today's names, on the CPU.

    Raises:
        CheckpointError: See :func:`envlab.distributed.checkpoint.load_checkpoint`.
    """
    return converted(load_checkpoint(path))


def check_header(values: Mapping[str, Any], path: Path) -> None:
    """Refuse a checkpoint that lacks the entries of every run's checkpoint.

    Raises:
        CheckpointError: Naming the entries that are absent or of another type.
    """
    wrong = [name for name, kind in _PARTS.items() if not isinstance(values.get(name), kind)]
    for name in _COUNTS:
        count = values.get(name)
        if type(count) is not int or not 0 <= count < 2**63:
            wrong.append(name)
    if not wrong:
        ranks = values["ranks"]
        if len(ranks) != values["world_size"] or not all(isinstance(rank, dict) for rank in ranks):
            wrong.append("ranks")
    if wrong:
        raise CheckpointError(
            f"The checkpoint {path} is damaged, or was not written by envlab: "
            f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or invalid. Use "
            "another one."
        )


class Checkpoints:
    """The checkpoints of one run. Rank 0 writes them; any process may read."""

    def __init__(
        self, folder: Path, keep: int = 0, *, moved: Callable[[], None] = lambda: None
    ) -> None:
        """Write nothing.

        Args:
            folder: The run's ``checkpoints/``.
            keep: How many of the newest to keep; 0: all.
            moved: Called after each piece is written.
        """
        self.folder, self._keep, self._moved = folder, keep, moved
        self._unlinked_best: int | None = None
        self._last_good: Path | None = None

    def iterations(self) -> list[int]:
        """Return the iterations that have a file, in rising order."""
        matches = [_NAME.fullmatch(path.name) for path in self.folder.glob("model_*.pt")]
        return sorted(int(match.group(1)) for match in matches if match)

    def path(self, iteration: int) -> Path:
        """Return the file of an iteration."""
        return self.folder / f"model_{iteration}.pt"

    def save(self, iteration: int, values: dict[str, Any], *, is_best: bool) -> Path | None:
        """Write a checkpoint; if the disk is full or refuses, log an error and change nothing.

        Args:
            iteration: Iterations done.
            values: See :func:`~envlab.distributed.checkpoint.save_checkpoint`.
            is_best: Whether this one becomes ``best.pt``.

        Returns:
            The file, or None if the disk did not take it.

        Raises:
            OSError: If it cannot be written for another reason.
        """
        path = self.path(iteration)
        if self._last_good is None and (older := self.iterations()):
            self._last_good = self.path(older[-1])
        last_good = self._last_good
        so = f"the last good one is {last_good}" if last_good else "there is no earlier one"
        what = f"The checkpoint {path} could not be written"
        with surviving_disk_errors(self.folder, what, f"The run continues; {so}."):
            self.folder.mkdir(exist_ok=True)  # somebody may have removed it
            for leftover in self.folder.glob(".*.tmp"):  # of a process that was killed
                with contextlib.suppress(OSError):  # another user's
                    leftover.unlink()
            save_checkpoint(path, values, self._moved)
            self._last_good = path
            if is_best:
                self._unlinked_best = None if self._name(path, "best.pt") else iteration
            self._name(path, "latest.pt")
            self._remove_old(iteration)
            return path
        return None

    def find(
        self, selector: str = "latest", accept: Accept = lambda values, path: None
    ) -> tuple[Path, dict[str, Any]]:
        """Return a checkpoint's file and its contents.

        Args:
            selector: ``latest``, ``best``, or a file's name. Only ``latest`` falls back to an
                earlier one.
            accept: Rejects unwanted checkpoints.

        Raises:
            CheckpointError: If there is none, or it cannot be read or is refused.
        """
        if selector == "latest":
            return self.latest(accept)
        path = self.folder / ("best.pt" if selector == "best" else selector)
        if not path.is_file():
            raise CheckpointError(
                f"The run {self.folder.parent} has no checkpoint {selector!r}; it has those of the "
                f"iterations {self.iterations() or 'none'}. Use 'latest', 'best', or a file's path."
            )
        values = read_checkpoint(path)
        accept(values, path)
        return path, values

    def latest(self, accept: Accept = lambda values, path: None) -> tuple[Path, dict[str, Any]]:
        """Return the newest checkpoint that can be read, warning of those that were skipped.

        Raises:
            CheckpointError: If there is none.
        """
        problems: list[CheckpointError] = []
        for path in self._candidates():
            try:
                values = read_checkpoint(path)
                accept(values, path)
            except CheckpointError as error:
                problems.append(error)
                continue
            for problem in problems:
                logger.warning("Skipped a checkpoint: %s", problem)
            if problems:
                logger.warning("Taking %s (iteration %d).", path, values["iteration"])
            return path, values
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise CheckpointError(
                f"None of the {len(problems)} checkpoints in {self.folder} can be used. The newest "
                f"one: {problems[0]}"
            )
        raise CheckpointError(
            f"There is no checkpoint in {self.folder}. Train first, or give a file's path with "
            "--checkpoint."
        )

    def keep_best_of(self, folder: Path, mean_return: float | None) -> bool:
        """Keep ``best.pt`` of the run that this one continues, and return whether it exists.

        Args:
            folder: Folder of the checkpoint that this run resumes from, which may be its own.
            mean_return: The best return so far according to that checkpoint. A ``best.pt`` with
                another return is of a later iteration, which this run does not know.
        """
        best = folder / "best.pt"
        if (self.folder / best.name).is_file():
            return True
        try:
            values = read_checkpoint(best)
        except CheckpointError:
            return False
        metrics = values.get("metrics")
        if not isinstance(metrics, dict) or mean_return is None:
            return False
        if metrics.get("best_return") != mean_return:
            return False
        return self._name(best, best.name)

    def _candidates(self) -> Iterator[Path]:
        """Yield the files, newest first, then any that only ``latest.pt`` or ``best.pt`` names."""
        seen: set[tuple[int, int]] = set()
        paths = [self.path(iteration) for iteration in reversed(self.iterations())]
        for path in (*paths, self.folder / "latest.pt", self.folder / "best.pt"):
            if path.is_file():
                stat = path.stat()
                if (stat.st_dev, stat.st_ino) not in seen:
                    seen.add((stat.st_dev, stat.st_ino))
                    yield path

    def _name(self, path: Path, name: str) -> bool:
        """Give a file a second name, replacing its holder; return whether the disk did."""
        temporary = self.folder / f".{name}.{os.getpid()}.tmp"
        so = f"The run continues; {name} is still an earlier one."
        with surviving_disk_errors(self.folder, f"{path} could not be named {name}", so):
            try:
                os.link(path, temporary)
                temporary.replace(self.folder / name)
                sync_folder(self.folder)
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise
                _copy(path, self.folder / name, self._moved)  # the file system has no hard links
            finally:
                temporary.unlink(missing_ok=True)
            return True
        return False

    def _remove_old(self, newest: int) -> None:
        """Remove the checkpoints that need not be kept, now that there is a newer one.

        Files of later iterations are kept and not counted. A run that resumed from before a damaged
        file will write them again.
        """
        if not self._keep:
            return
        past = [iteration for iteration in self.iterations() if iteration <= newest]
        for iteration in past[: -self._keep]:
            if iteration != self._unlinked_best:
                path = self.path(iteration)
                what = f"The old checkpoint {path} could not be removed"
                with surviving_disk_errors(path, what, "The run continues."):
                    path.unlink(missing_ok=True)


def _copy(path: Path, to: Path, moved: Callable[[], None]) -> None:
    with path.open("rb") as source, whole_file(to, moved) as target:
        shutil.copyfileobj(source, target, 2**20)


def of_leader(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of members as its leader's, for a library to play; others unchanged.

    It also has the leader's entry of ``members``, as ``member``.
    """
    population = values["model"].get("population")
    if population is None:
        return dict(values)
    place, networks = population["leader"], dict(values["model"]["networks"])
    for part in values["ranks"]:
        member = part["learner"]["members"].get(place, {}) if part else {}
        networks |= {place: member["model"]} if "model" in member else {}
    member = population["kept"] or population["members"][place]
    return {**values, "model": networks[place], "member": member}


def check_single(values: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of members for a single learner.

    Raises:
        CheckpointError: With the number of members.
    """
    if "population" in values["model"]:
        raise CheckpointError(
            f"The checkpoint is of a population of {values['model']['population']['size']}. "
            "Resume it as it was begun, or choose a checkpoint of a single learner."
        )
