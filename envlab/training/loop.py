"""The training loop, the same for every library."""

from __future__ import annotations

import functools
import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import torch

from envlab.agent_cfg import AgentCfg
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import SIGNALS, Preempted
from envlab.envs import BatchedEnv
from envlab.errors import RankDivergenceError
from envlab.learner import Curve, Iteration, IterationRecord, Learner
from envlab.run.directory import Run
from envlab.sim.host import on_host
from envlab.training.agreement import audit_run
from envlab.training.averaging import Waits
from envlab.training.curves import Curves
from envlab.training.metrics import EpisodeTracker, ProgressLine, RunMetrics
from envlab.training.saver import Saver
from envlab.training.video import VideoRecorder
from envlab.training.viewing import Viewer

OWN_SCALARS = ("mean_return", "mean_episode_length", "learning_rate", "fps", "wall_s")
"""Fields of a record that all libraries' event files hold, as ``envlab/<field>``."""
_DUE = "checkpoint"

T = TypeVar("T")


class Training:
    """A run from its first iteration to its last: one per rank, in lockstep.

    Attributes:
        learner: The library's algorithm.
        env: This rank's environments.
        context: The process's context.
        directory: The run directory.
        tracker: This rank's episodes.
        metrics: Counters and means over all ranks.
        saver: Writes checkpoints, and restores one.
    """

    def __init__(
        self,
        learner: Learner,
        env: BatchedEnv,
        context: DistributedContext,
        run: Run,
        *,
        cfg: AgentCfg,
        origin: Mapping[str, Any],
        total_iterations: int,
        curves: Curves | None = None,
        recorder: VideoRecorder | None = None,
        viewer: Viewer | None = None,
        stop_signal: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Create no files yet.

        Args:
            learner: The library's algorithm.
            env: This rank's environments.
            context: The process's context.
            run: The run to write to.
            cfg: The agent's configuration.
            origin: Library, task, algorithm and factor of learning rates, for the checkpoints.
            total_iterations: The iteration to end at.
            curves: Takes scalars on rank 0.
            recorder: Records videos on rank 0, if requested.
            viewer: Shows environments on rank 0, if requested.
            stop_signal: Returns the signal that asked this process to end after its iteration.
        """
        self.learner, self.env, self.context, self._run = learner, env, context, run
        self.directory = run.directory
        self._cfg, self._total = cfg, total_iterations
        self._curves, self._stop_signal = curves, stop_signal
        self._watchers = [watcher for watcher in (recorder, viewer) if watcher is not None]
        self._preemption: Preempted | None = None
        self._is_audited = False
        self._steps_left = 0
        self._line: ProgressLine | None = None
        self.tracker = learner.tracker or EpisodeTracker(env.num_envs, env.device)
        if env.recording is not None and env.device.type == "cuda" and not learner.tracker:
            self.tracker.record()
        self.metrics = RunMetrics(context, self.tracker)
        self.saver = Saver(learner, env, context, run, self.tracker, self.metrics, cfg, origin)

    def run(self, done: int) -> None:
        """Train from iteration ``done`` to the end of the budget, or until the learner is finished.

        Raises:
            Preempted: After the checkpoint that was written because of a signal.
            RankDivergenceError: If an audit finds a difference.
            SimulationError: If too many environments failed.
            ResultLostError: If the last checkpoint could not be written.
        """
        learner, progress = self.learner, self.context.progress
        budget = learner.frame_budget
        self._line = (
            ProgressLine(self.context, done=done, total=self._total)
            if budget is None
            else ProgressLine(self.context, done=self.metrics.frames, total=budget, unit="frames")
        )
        learner.start(self._total)
        if learner.averaging is not None:
            learner.averaging.begin()
        begun, waits = done, Waits(learner, self.context)
        while done < self._total:
            before, done = done, self._next_meeting(done)
            iteration = self._iterate(before + 1, done)
            learner.readings.read()  # what a learner that reads nothing has left
            self.env.check_health()
            meet = functools.partial(self._meet, iteration)
            record = self.metrics.reduce(done, iteration, self._notes(), meet)
            is_last = self._is_last(record)
            is_save_due = self._is_save_due(before, done, is_last) or learner.is_save_due(record)
            is_audit_due = _reaches(self._cfg.audit_interval, before, done)
            if is_save_due or is_audit_due or not self._is_audited:
                self.audit(done, record.learning_rate)
            self.write(record)
            if is_save_due:
                self._save(record)
            self._line.show(record, learner.progress(record))
            progress.frames, progress.is_warm = record.frames, True
            if self._preemption is not None:
                raise self._preemption
            waits.end_iteration(iteration.collect_s + iteration.learn_s, is_warm=before > begun)
            if is_last:
                break
        self.saver.check_result()

    def _next_meeting(self, done: int) -> int:
        """Return the iteration after which ranks meet next: each, unless they learn alone."""
        averaging = self.learner.averaging
        return min(done + 1 if averaging is None else averaging.next_after(done), self._total)

    def _iterate(self, first: int, last: int) -> Iteration:
        """Collect and learn until the iteration after which ranks meet; return the sum of all."""
        learner, parts = self.learner, []
        for number in range(first, last + 1):
            self.context.progress.mark("collect", number)
            self._steps_left = self._cfg.num_steps_per_env
            parts.append(learner.iterate(number, self.add_step))
            self.context.progress.mark("iteration", number)
        return Iteration.joined(parts)

    def _meet(self, iteration: Iteration, sums: T) -> list[T]:
        """Return all ranks' sums; ranks that learned alone are averaged in the same exchange."""
        averaging = self.learner.averaging
        if averaging is None:
            return self.context.gather(sums)
        start = time.perf_counter()
        everyone = averaging.average(sums)
        iteration.learn_s += time.perf_counter() - start
        iteration.learning_rate = averaging.learning_rate
        return everyone

    def add_step(self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any]) -> None:
        """Count a step of this rank's environments; see :class:`envlab.learner.OnStep`."""
        self.tracker.add_step(rewards, ended, info)
        for watcher in self._watchers:
            with self.context.progress.during("video"):
                watcher.after_step()
        self._steps_left -= 1
        if self._steps_left == 0 and not on_host(self.env.device):
            self.env.ask_health(self.learner.readings)
            self.tracker.means.ask(self.learner.readings)
        self.context.progress.mark("collect" if self._steps_left > 0 else "learn")

    def audit(self, number: int, learning_rate: float) -> None:
        """Compare the values that must be equal on all ranks, and those that must differ."""
        self._is_audited = True
        counters = {"iteration": number, "total": self._total, "learning_rate": learning_rate}
        counters |= self.metrics.counters()
        try:
            audit_run(self.learner, self.env, self.context, counters, iteration=number)
        except RankDivergenceError as error:
            good = self.context.broadcast(self.saver.good_checkpoint)
            advice = "There is no checkpoint to go back to: fix the cause, and start again."
            if good is not None:
                advice = f"Fix the cause, and resume from {good}, which passed this audit."
            self._run.update(audit={"iteration": number, "is_passed": False})
            raise RankDivergenceError(f"{error} {advice}") from None
        if self.context.is_distributed:
            self._run.update(audit={"iteration": number, "is_passed": True})

    def write(self, record: IterationRecord) -> None:
        """Write an iteration's metrics and curves, on rank 0."""
        self._run.append_metrics(asdict(record))
        if self._curves is None:
            return
        means = {f"envlab/{name}": getattr(record, name) for name in OWN_SCALARS}
        self._curves.start_iteration(record.iteration, record.frames)
        own = Curve(record.frames, means | dict(record.episode))
        for curve in (own, *self.learner.curves(record)):
            self._curves.add(curve.step, curve.scalars)

    def close(self) -> None:
        """Close the progress line, the video, the viewer, the curves and the learner."""
        for part in (*self._watchers, self._line, self._curves, self.learner):
            if part is not None:
                part.close()

    def _is_last(self, record: IterationRecord) -> bool:
        """Return whether the budget is used up or the learner is finished, alike on all ranks."""
        budget = self.learner.frame_budget
        is_used_up = record.iteration == self._total or (budget or math.inf) <= record.frames
        return self.learner.is_finished(record) or is_used_up

    def _notes(self) -> list[str]:
        """Return what this rank has to tell all: the signal that it got, whether a save is due.

        Clocks and signals differ between ranks, so any one rank decides for all.
        """
        signal_number = self._stop_signal()
        heard = [] if signal_number is None else [signal.Signals(signal_number).name]
        return heard + ([_DUE] if self.saver.is_checkpoint_due(time.monotonic()) else [])

    def _is_save_due(self, before: int, number: int, is_last: bool) -> bool:
        """Return whether all ranks save now; record whether a signal to any of them ends it."""
        notes = self.metrics.notes
        heard = [one for one in SIGNALS if one.name in notes]
        if heard and not is_last:
            self._preemption = Preempted(heard[-1])
        by_interval = _reaches(self._cfg.save_interval, before, number)
        return is_last or bool(heard) or _DUE in notes or by_interval

    def _save(self, record: IterationRecord) -> None:
        """Write a checkpoint; if the run is preempted, no rank leaves before it is written."""
        with self.context.progress.during("checkpoint"):
            self.saver.save(record)
            if self._preemption is not None:
                # torchrun ends the others as soon as one rank has left.
                self._preemption.is_saved = self.context.broadcast(not self.saver.is_result_lost)
                self._preemption.directory = self._run.directory
                self._preemption.checkpoint = self.saver.last_checkpoint


def _reaches(interval: int, before: int, number: int) -> bool:
    """Return whether a multiple of ``interval`` was reached after iteration ``before``."""
    return number // interval > before // interval
