"""Metrics of a run: one schema for all libraries, over the environments of all ranks."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from envlab.distributed.context import DistributedContext
from envlab.distributed.disk import surviving_disk_errors
from envlab.distributed.statistics import Gather, Mean, WeightedMeans
from envlab.learner import Iteration, IterationRecord
from envlab.sim.recording import NewGraphs, Recording, cuda_graphs, recording_of_updates
from envlab.state import State

WINDOW_EPISODES = 100
"""Mean return and length cover at least this many last episodes, as in the libraries."""

_FRAMES, _NOTE = "frames", "note/"


class EpisodeTracker:
    """Returns and lengths of episodes, and the environments' own log, summed over steps.

    Attributes:
        means: Of all that was added.
        recording: Counts steps on a GPU by a graph; None: not.
    """

    STATE = State(per_env=("_returns", "_lengths"))
    recording: Recording | None = None

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._episodes = torch.zeros(2, num_envs, device=device)
        self._returns, self._lengths = self._episodes
        self.means = WeightedMeans()
        self._step: dict[str, torch.Tensor] = {}
        """A step on a device, where a graph reads it."""

    def record(self, new_graphs: NewGraphs = cuda_graphs) -> None:
        """Count by graphs from now on."""
        self.recording = recording_of_updates(self._count, new_graphs)

    def add_step(self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any]) -> None:
        """Add a step of all environments.

        Args:
            rewards: ``(num_envs,)``.
            ended: Whether an episode ended, bool ``(num_envs,)``.
            info: The ``info`` returned by the environment; ``log`` and ``num_ended`` are read.
        """
        count, device = info["num_ended"], self._episodes.device
        there = {
            name: value
            for name, value in info["log"].items()
            if isinstance(value, torch.Tensor) and value.device == device
        }
        if isinstance(count, torch.Tensor):  # which is never read here
            self._take(rewards, ended, count, there)
            self._count() if self.recording is None else self.recording.run()
        else:
            self._returns += rewards
            self._lengths += 1
            if not count:
                return
            sums = (self._episodes * ended).sum(dim=1)
            self.means.add(("return", "length"), sums, count)
            if there:
                self.means.add(tuple(there), torch.stack(tuple(there.values())) * count, count)
            self._episodes.masked_fill_(ended, 0.0)
        for name, value in info["log"].items():
            if name not in there:
                self.means.add(name, value * count, count)

    def _take(
        self,
        rewards: torch.Tensor,
        ended: torch.Tensor,
        count: torch.Tensor,
        log: Mapping[str, torch.Tensor],
    ) -> None:
        """Have a step where a graph reads it."""
        totals, weight = self.means.in_place(("return", "length", *log), self._episodes.device)
        step = {"rewards": rewards, "ended": ended, "count": count}
        if self._step.get("totals") is not totals:  # the first step, or one with other names
            with torch.inference_mode(False):
                self._step = {name: torch.empty_like(value) for name, value in step.items()}
                self._step["log"] = torch.zeros(len(log), device=totals.device)
            self._step |= {"totals": totals, "weight": weight}
            if self.recording is not None:
                self.recording.forget()
        for name, value in step.items():
            self._step[name].copy_(value)
        if log:
            torch.stack(tuple(log.values()), out=self._step["log"])

    def _count(self) -> None:
        """Add the step that was taken, in place."""
        step, episodes = self._step, self._episodes
        self._returns += step["rewards"]
        self._lengths += 1
        sums = (episodes * step["ended"]).sum(dim=1)
        step["totals"] += torch.cat((sums, step["log"] * step["count"]))
        step["weight"] += step["count"]
        episodes.masked_fill_(step["ended"], 0.0)

    def forget(self) -> None:
        """Forget the unfinished episodes, after all environments were reset."""
        self._episodes.zero_()


class RunMetrics:
    """Turns the ranks' counters into records, the progress line, and event files."""

    def __init__(self, context: DistributedContext, tracker: EpisodeTracker) -> None:
        """Start counting this rank's episodes."""
        self._context, self._tracker = context, tracker
        self._window: deque[tuple[Mean, Mean]] = deque()
        self._start = time.perf_counter()
        self._wall_before = 0.0
        self.frames = 0
        """Environment steps of all ranks so far, including those before a resume."""
        self.best_return: float | None = None
        """Best mean return at a checkpoint so far."""
        self.notes: set[str] = set()
        """What ranks noted in the last iteration."""
        self.latest: Mean | None = None
        """Mean return of the episodes that ended in the last iteration, if any did."""

    @property
    def wall_s(self) -> float:
        """Wall time so far, in seconds."""
        return self._wall_before + time.perf_counter() - self._start

    def reduce(
        self,
        number: int,
        iteration: Iteration,
        notes: Collection[str] = (),
        gather: Gather | None = None,
    ) -> IterationRecord:
        """Return the record of an iteration; every rank must call this, and gets the same one.

        Args:
            number: The iteration.
            iteration: This rank's report on it.
            notes: Words for all ranks; :attr:`notes` then has those of all, without a further
                collective.
            gather: Exchanges the ranks' sums, and may complete ``iteration``; None: the context.
        """
        means = self._tracker.means
        means.add(_FRAMES, iteration.frames, 1.0)
        for note in notes:
            means.add(f"{_NOTE}{note}", 1.0, 1.0)
        for name, loss in iteration.losses.items():
            means.add(f"loss/{name}", loss, 1.0)
        reduced = means.reduce(gather or self._context.gather)
        # Ranks may differ in their frames, as a rollout may be cut short. The mean is per rank.
        per_rank = reduced.pop(_FRAMES)
        frames = round(per_rank.value * per_rank.weight)
        self.frames += frames
        self.notes = {name.removeprefix(_NOTE) for name in reduced if name.startswith(_NOTE)}
        self.latest = reduced.get("return")
        if "return" in reduced:
            self._window.append((reduced.pop("return"), reduced.pop("length")))
            self._trim_window()
        seconds = max(iteration.collect_s + iteration.learn_s, 1e-9)
        return IterationRecord(
            iteration=number,
            frames=self.frames,
            wall_s=round(self.wall_s, 3),
            fps=round(frames / seconds, 1),
            collect_s=round(iteration.collect_s, 4),
            learn_s=round(iteration.learn_s, 4),
            mean_return=self._window_mean(0),
            mean_episode_length=self._window_mean(1),
            learning_rate=iteration.learning_rate,
            losses={name: reduced[f"loss/{name}"].value for name in iteration.losses},
            episode={
                name: mean.value
                for name, mean in reduced.items()
                if not name.startswith(("loss/", _NOTE))
            },
            details=dict(iteration.details),
        )

    def note_return(self, mean_return: float | None) -> None:
        """Record the mean return at a checkpoint, the same on all ranks."""
        known = [value for value in (mean_return, self.best_return) if value is not None]
        self.best_return = max(known, default=None)

    def forget_returns(self) -> None:
        """Empty the window of last episodes, which were another policy's."""
        self._window.clear()

    def state(self) -> dict[str, Any]:
        """Return the state that must survive a resume."""
        return {
            "wall_s": self.wall_s,
            "frames": self.frames,
            "window": [[list(mean) for mean in pair] for pair in self._window],
            "best_return": self.best_return,
        }

    def counters(self) -> dict[str, Any]:
        """Return the part of :meth:`state` that is the same on all ranks."""
        return {name: value for name, value in self.state().items() if name != "wall_s"}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`."""
        self._wall_before = float(state["wall_s"])
        self.frames = int(state["frames"])
        self._window = deque((Mean(*pair[0]), Mean(*pair[1])) for pair in state["window"])
        self.best_return = state["best_return"]

    def _trim_window(self) -> None:
        while sum(pair[0].weight for pair in list(self._window)[1:]) >= WINDOW_EPISODES:
            self._window.popleft()

    def _window_mean(self, index: int) -> float | None:
        if not self._window:
            return None
        means = [pair[index] for pair in self._window]
        return sum(mean.value * mean.weight for mean in means) / sum(mean.weight for mean in means)


_FORMAT = "{n_fmt}/{total_fmt} UNIT BAR{elapsed}<{remaining}{postfix}"
_BARS = ("|{bar:20}| ", "|{bar:8}| ", "")
_COLUMNS = 80
"""Assumed width of a terminal that does not report one, as in some containers."""


def _columns() -> int | None:
    """Return the width of standard error's terminal; None if it is no terminal."""
    if not sys.stderr.isatty():
        return None
    return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS


class _Lines:
    """A stream for tqdm in place of a terminal: one line per redraw, fit for a log file."""

    def __init__(self) -> None:
        self._last = ""

    def write(self, text: str) -> None:
        text = text.strip()
        if text and text != self._last:
            self._last = text
            with surviving_disk_errors(Path()):  # the output may go to a file
                print(text, file=sys.stderr, flush=True)

    def flush(self) -> None:
        """Do nothing, as lines are flushed when written."""


class ProgressLine:
    """The progress line on rank 0: ETA, mean return, episode length, frames per second.

    If a terminal is too narrow, the bar is dropped first, then the length, then the speed; tqdm
    would cut the line off anywhere. It counts iterations, or frames if these are the budget.
    """

    def __init__(
        self, context: DistributedContext, *, done: int, total: int, unit: str = "iterations"
    ) -> None:
        is_terminal = sys.stderr.isatty()
        self._unit, self._format = unit, _FORMAT.replace("UNIT", unit)
        # tqdm's own lock is a semaphore between processes, but one process draws the line.
        tqdm.set_lock(threading.RLock())
        self._bar = tqdm(
            total=total,
            initial=done,
            unit="it",
            unit_scale=unit == "frames",
            file=sys.stderr if is_terminal else _Lines(),
            disable=not context.is_main,
            ncols=_columns(),
            nrows=2,  # else tqdm draws nothing on a terminal without a known height
            mininterval=0.5 if is_terminal else 5.0,
            maxinterval=0.5 if is_terminal else 5.0,
            bar_format=self._format.replace("BAR", _BARS[0]),
        )

    def show(self, record: IterationRecord, more: str = "") -> None:
        """Advance by one iteration, and show ``more`` if there is room."""
        returns, length = record.mean_return, record.mean_episode_length
        told = f"return {'-' if returns is None else f'{returns:.2f}'}"
        lasts = f"length {'-' if length is None else f'{length:.0f}'}"
        speed = f"{record.fps:,.0f} frames/s"
        self._bar.ncols = _columns()
        variants = [(bar, f"{told}, {lasts}, {speed}") for bar in _BARS]
        if more:
            variants = [(bar, f"{told}, {more}, {speed}") for bar in _BARS] + variants
        for bar, text in (*variants, ("", f"{told}, {speed}"), ("", told), ("", "")):
            self._bar.bar_format = self._format.replace("BAR", bar)
            self._bar.set_postfix_str(text, refresh=False)
            if self._fits():
                break
        done = record.frames if self._unit == "frames" else record.iteration
        self._bar.total = max(self._bar.total, done)  # the last rollout may go beyond the budget
        self._bar.update(done - self._bar.n)

    def _fits(self) -> bool:
        """Return whether the line fits the terminal, even if its numbers grow by some digits."""
        values = self._bar.format_dict
        line = self._bar.format_meter(**values | {"n": values["n"] + 1, "ncols": None})
        return values["ncols"] is None or len(line) + 4 < values["ncols"]

    def close(self) -> None:
        """Draw the line for the last time, and leave it."""
        self._bar.close()
