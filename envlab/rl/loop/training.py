"""What happens around any library's iterations: metrics, audit, checkpoints, resume."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import PREEMPTION_SIGNALS, Preempted
from envlab.distributed.seeding import generator_state, set_generator_state
from envlab.envs import VectorEnv
from envlab.errors import ResultLostError
from envlab.rl.agent_cfg import AgentCfg
from envlab.rl.loop.audit import audit_run
from envlab.rl.loop.curves import Curves
from envlab.rl.loop.metrics import (
    EpisodeTracker,
    Iteration,
    IterationRecord,
    ProgressLine,
    RunMetrics,
)
from envlab.rl.loop.video import VideoRecorder
from envlab.rl.run.checkpoints import Checkpoints
from envlab.rl.run.directory import Run

logger = logging.getLogger(__name__)

OWN_SCALARS = ("mean_return", "mean_episode_length", "learning_rate", "fps", "wall_s")
"""Fields of a record that all libraries' event files hold, as ``envlab/<field>``."""


class Learner(Protocol):
    """What a library's adapter does: its algorithm, between environments and :class:`Training`."""

    def learn(self, training: Training, done: int, total: int) -> None:
        """Train from iteration ``done`` to ``total``.

        It calls ``training.add_step`` after each step of the environments and
        ``training.finish_iteration`` after each iteration, on every rank.
        """

    def model_state(self) -> dict[str, Any]:
        """Return networks, optimizer and normalisers: saved, and bit-identical on all ranks."""

    def load_models(self, values: Mapping[str, Any]) -> None:
        """Load a checkpoint, whose ``model`` is what :meth:`model_state` returned.

        Raises:
            CheckpointError: If the networks have other shapes than the configuration's.
        """

    def rank_state(self) -> dict[str, Any]:
        """Return what each rank has of its own, such as the memory of recurrent networks."""

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""

    def noise_keys(self) -> dict[str, Any]:
        """Return keys of generators that actions are sampled with, beside the process's own."""


class Training:
    """The life of a run between its first and last iteration. Every rank has one.

    Attributes:
        tracker: This rank's episodes; feed it every step.
        metrics: Counters and means over all ranks.
        last_checkpoint: The newest checkpoint of this run, on rank 0.
    """

    def __init__(
        self,
        learner: Learner,
        env: VectorEnv,
        context: DistributedContext,
        run: Run,
        *,
        cfg: AgentCfg,
        origin: Mapping[str, Any],
        total_iterations: int,
        curves: Curves | None = None,
        recorder: VideoRecorder | None = None,
        stop_signal: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Write nothing yet.

        Args:
            learner: The library's algorithm.
            env: This rank's environments.
            context: The process's context.
            run: Where to write.
            cfg: The agent's configuration.
            origin: Library, task, algorithm and learning rates' factor, for the checkpoints.
            total_iterations: The iteration to end at.
            curves: Takes scalars on rank 0.
            recorder: Records videos on rank 0, where they were asked for.
            stop_signal: Returns the signal that asked this process to end after its iteration.
        """
        self._learner, self._env, self._context, self._run = learner, env, context, run
        self._origin, self._seed = dict(origin), cfg.seed
        self._save_interval, self._audit_interval = cfg.save_interval, cfg.audit_interval
        self._save_interval_s = 60.0 * cfg.save_interval_minutes
        self._total = total_iterations
        self._recorder = recorder
        self._stop_signal = stop_signal
        self._preemption: Preempted | None = None
        self._saved_at = time.monotonic()
        self._curves = curves
        self._checkpoints = Checkpoints(
            run.checkpoints, keep=cfg.keep_checkpoints, moved=context.progress.mark
        )
        self._is_result_lost = False
        self._kept_return: float | None = None  # of best.pt; rank 0's alone knows
        self._line: ProgressLine | None = None
        self._is_first = True
        self._num_steps, self._steps_left = cfg.num_steps_per_env, cfg.num_steps_per_env
        self.tracker = EpisodeTracker(env.num_envs, env.device)
        frames = cfg.num_steps_per_env * env.num_envs * context.world_size
        self.metrics = RunMetrics(run, context, self.tracker, frames_per_iteration=frames)
        self.last_checkpoint: Path | None = None

    def start(self, iteration: int) -> None:
        """Show the progress line, from ``iteration`` on."""
        self._line = ProgressLine(self._context, done=iteration, total=self._total)
        self._context.progress.mark("collect", iteration + 1)

    def add_step(self, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any]) -> None:
        """Count a step of this rank's environments; see :meth:`EpisodeTracker.add_step`.

        Raises:
            Preempted: Instead of counting the first step after the iteration that saved for it.
        """
        if self._preemption is not None:
            raise self._preemption
        self.tracker.add_step(rewards, ended, info)
        if self._recorder is not None:
            with self._context.progress.during("video"):
                self._recorder.after_step()
        self._steps_left -= 1
        self._context.progress.mark("collect" if self._steps_left > 0 else "learn")

    def finish_iteration(self, iteration: Iteration) -> IterationRecord:
        """Reduce and write metrics; audit and save where they are due. Called by every rank.

        Raises:
            RankDivergenceError: If the audit finds a difference.
            SimulationError: If too many environments failed.
        """
        done, progress = iteration.number, self._context.progress
        progress.mark("iteration", done)
        self._env.check_health()
        record = self.metrics.reduce(iteration)
        save_due = self._agree(done)
        if save_due or self._is_first or done % self._audit_interval == 0:
            self._is_first = False
            self.audit(done, iteration.learning_rate)
        self._run.append_metrics(asdict(record))
        self._write_own_scalars(record)
        if save_due:
            with progress.during("checkpoint"):
                self.save(done, record)
                if self._preemption is not None:
                    # Nobody leaves before the file is there: torchrun then ends the others.
                    is_saved = self._context.broadcast(not self._is_result_lost)
                    self._preemption.is_saved = is_saved
        if self._line is not None:
            self._line.show(record)
        progress.frames, progress.is_warm, self._steps_left = record.frames, True, self._num_steps
        progress.mark("collect", done + 1)
        return record

    def _agree(self, done: int) -> bool:
        """Return whether all ranks save now; note whether they end for a signal to one of them."""
        is_main_due = (
            self._context.is_main
            and self._save_interval_s > 0
            and time.monotonic() - self._saved_at >= self._save_interval_s
        )
        number = self._stop_signal()
        heard = PREEMPTION_SIGNALS.index(number) + 1 if number in PREEMPTION_SIGNALS else 0
        heard, minutes_due = self._context.max(heard, int(is_main_due))
        if done == self._total:
            return True
        if heard:
            self._preemption = Preempted(PREEMPTION_SIGNALS[heard - 1])
        return bool(heard or minutes_due) or done % self._save_interval == 0

    def write_scalars(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """Write curves under the library's own tags, on rank 0; None is left out.

        Args:
            step: Where on the curve, in what the library counts.
            scalars: Values by tag.
        """
        if self._curves is not None:
            self._curves.add(step, scalars)

    def _write_own_scalars(self, record: IterationRecord) -> None:
        """Write what every library reports, over global frames."""
        if self._curves is not None:
            self._curves.start_iteration(record.iteration, record.frames)
        means = {f"envlab/{name}": getattr(record, name) for name in OWN_SCALARS}
        self.write_scalars(record.frames, means | dict(record.episode))

    def audit(self, iteration: int, learning_rate: float) -> None:
        """Compare what must be equal on all ranks, and what must differ."""
        counters = {"iteration": iteration, "total": self._total, "learning_rate": learning_rate}
        counters |= self.metrics.counters()
        audit_run(self._learner, self._env, self._context, counters, iteration=iteration)

    def save(self, iteration: int, record: IterationRecord) -> None:
        """Write a checkpoint on rank 0, with every rank's part. Called by every rank."""
        mine = {
            "env": self._env.state(),
            "episodes": self.tracker.state(),
            "generators": generator_state(),
            "learner": self._learner.rank_state(),
        }
        ranks = self._context.gather_to_main(mine)
        mean_return = record.mean_return
        self.metrics.note_return(mean_return)
        self._saved_at = time.monotonic()
        if ranks is None:
            return
        kept = self._kept_return
        is_best = mean_return is not None and (kept is None or mean_return >= kept)
        best_return = mean_return if is_best else kept
        values = {
            **self._origin,
            "iteration": iteration,
            "frames": record.frames,
            "seed": self._seed,
            "world_size": self._context.world_size,
            "num_envs": self._env.num_envs,
            "model": self._learner.model_state(),
            "metrics": self.metrics.state() | {"best_return": best_return},
            "ranks": ranks,
            "services": self._run.services,
        }
        path = self._checkpoints.save(iteration, values, is_best=is_best)
        self._is_result_lost = path is None
        if path is not None:
            self.last_checkpoint, self._kept_return = path, best_return
        self._run.update(iteration=iteration, frames=record.frames, mean_return=mean_return)

    def check_result(self) -> None:
        """Check that the last checkpoint is there. Called by every rank, after the last iteration.

        Raises:
            ResultLostError: On every rank, if it could not be written.
        """
        if self._context.broadcast(self._is_result_lost):
            raise ResultLostError(
                "The run is done, but its last checkpoint could not be written, so its result is "
                "lost. Make room, and go on from the last good one with --resume and the same "
                "--max_iterations."
            )

    def restore(self, values: Mapping[str, Any], path: str) -> None:
        """Continue where a checkpoint stopped: exactly, with as many ranks and environments."""
        self.metrics.set_state(values["metrics"])
        best = self.metrics.best_return
        if self._context.is_main and self._checkpoints.keep_best_of(Path(path).parent, best):
            self._kept_return = best
        then = (values["world_size"], values["num_envs"], values["seed"])
        now = (self._context.world_size, self._env.num_envs, self._seed)
        if then == now:
            mine = values["ranks"][self._context.rank]
            self._env.set_state(mine["env"])
            self._learner.set_rank_state(mine["learner"])
            set_generator_state(mine["generators"])
            if self._env.resumes_exactly:
                self.tracker.set_state(mine["episodes"])
                logger.info("Resuming exactly from %s (iteration %d).", path, values["iteration"])
                return
            logger.info(
                "Resuming from %s (iteration %d): networks, optimizer, learning rate, counters and "
                "generators go on; episodes start fresh, because Gymnasium's environments cannot "
                "be saved.",
                path,
                values["iteration"],
            )
            return
        logger.info(
            "Resuming from %s (iteration %d): networks, optimizer, learning rate and counters go "
            "on; environments and generators start fresh, because it was saved with %d processes "
            "of %d environments and seed %d, not %d of %d and %d.",
            path,
            values["iteration"],
            *then,
            *now,
        )

    def close(self) -> None:
        """Close the progress line, the video and the curves."""
        if self._recorder is not None:
            self._recorder.close()
        if self._line is not None:
            self._line.close()
        if self._curves is not None:
            self._curves.close()
