"""What happens around any library's iterations: metrics, audit, checkpoints, resume."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from envlab.distributed.audit import audit
from envlab.distributed.checkpoint import save_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import generator_state, set_generator_state
from envlab.envs import VectorEnv
from envlab.rl.metrics import (
    EpisodeTracker,
    Iteration,
    IterationRecord,
    Progress,
    RunMetrics,
    make_event_writer,
)
from envlab.rl.run import Run

logger = logging.getLogger(__name__)


class Learner(Protocol):
    """What a library's adapter tells about its algorithm."""

    library: str
    """Name of the library."""

    def model_state(self) -> dict[str, Any]:
        """Return networks, optimizer and normalisers: saved, and bit-identical on all ranks."""

    def rank_state(self) -> dict[str, Any]:
        """Return what each rank has of its own, such as the memory of recurrent networks."""

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""


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
        task_id: str,
        seed: int,
        num_steps_per_env: int,
        save_interval: int,
        audit_interval: int,
        total_iterations: int,
        event_writer: str,
    ) -> None:
        """Open the event files on rank 0.

        Args:
            learner: The library's algorithm.
            env: This rank's environments.
            context: The process's context.
            run: Where to write.
            task_id: The task, for the checkpoints.
            seed: The run's base seed.
            num_steps_per_env: Steps of each environment per iteration.
            save_interval: Iterations between two checkpoints.
            audit_interval: Iterations between two audits.
            total_iterations: The iteration to end at.
            event_writer: See :func:`make_event_writer`.
        """
        self._learner, self._env, self._context, self._run = learner, env, context, run
        self._task_id, self._seed = task_id, seed
        self._save_interval, self._audit_interval = save_interval, audit_interval
        self._total = total_iterations
        self._events = make_event_writer(event_writer, run) if context.is_main else None
        self._progress: Progress | None = None
        self._is_first = True
        self.tracker = EpisodeTracker(env.num_envs, context.device)
        frames = num_steps_per_env * env.num_envs * context.world_size
        self.metrics = RunMetrics(run, context, self.tracker, frames_per_iteration=frames)
        self.last_checkpoint: Path | None = None

    def start(self, iteration: int) -> None:
        """Show the progress line, from ``iteration`` on."""
        self._progress = Progress(self._context, done=iteration, total=self._total)

    def finish_iteration(self, iteration: Iteration) -> IterationRecord:
        """Reduce and write metrics; audit and save where they are due. Called by every rank.

        Raises:
            RankDivergenceError: If the audit finds a difference.
            SimulationError: If too many environments failed.
        """
        self._env.check_health()
        record = self.metrics.reduce(iteration)
        done = iteration.number
        save_due = done % self._save_interval == 0 or done == self._total
        if save_due or self._is_first or done % self._audit_interval == 0:
            self._is_first = False
            self.audit(done, iteration.learning_rate)
        self._run.append_metrics(asdict(record))
        if save_due:
            self.save(done, record)
        if self._progress is not None:
            self._progress.show(record)
        return record

    def write_scalars(self, iteration: int, scalars: Mapping[str, float | None]) -> None:
        """Write curves under the library's own tags, on rank 0; None is left out."""
        if self._events is not None:
            for tag, value in scalars.items():
                if value is not None:
                    self._events.add_scalar(tag, value, iteration)

    def audit(self, iteration: int, learning_rate: float) -> None:
        """Compare what must be equal on all ranks, and what must differ."""
        equal = {**self._learner.model_state(), "learning_rate": learning_rate}
        stream = self._env.random.stream("audit").bits(1)
        audit(self._context, equal, {"environment streams": stream}, iteration=iteration)

    def save(self, iteration: int, record: IterationRecord) -> None:
        """Write a checkpoint on rank 0, with every rank's part. Called by every rank."""
        mine = {
            "env": self._env.state(),
            "episodes": self.tracker.state(),
            "generators": generator_state(),
            "learner": self._learner.rank_state(),
        }
        ranks = self._context.gather_to_main(mine)
        mean_return, best = record.mean_return, self.metrics.best_return
        is_best = mean_return is not None and (best is None or mean_return >= best)
        if is_best:
            self.metrics.best_return = mean_return
        if ranks is None:
            return
        path = self._run.checkpoints / f"model_{iteration}.pt"
        values = {
            "library": self._learner.library,
            "task": self._task_id,
            "iteration": iteration,
            "frames": record.frames,
            "seed": self._seed,
            "world_size": self._context.world_size,
            "num_envs": self._env.num_envs,
            "model": self._learner.model_state(),
            "metrics": self.metrics.state(),
            "ranks": ranks,
        }
        save_checkpoint(path, values)
        if is_best:
            _link(path, self._run.checkpoints / "best.pt")
        self.last_checkpoint = path
        self._run.update(iteration=iteration, frames=record.frames, mean_return=mean_return)

    def restore(self, values: Mapping[str, Any], path: str) -> None:
        """Continue where a checkpoint stopped: exactly, with as many ranks and environments."""
        self.metrics.set_state(values["metrics"])
        then = (values["world_size"], values["num_envs"], values["seed"])
        now = (self._context.world_size, self._env.num_envs, self._seed)
        if then == now:
            mine = values["ranks"][self._context.rank]
            self._env.set_state(mine["env"])
            self.tracker.set_state(mine["episodes"])
            self._learner.set_rank_state(mine["learner"])
            set_generator_state(mine["generators"])
            logger.info("Resuming exactly from %s (iteration %d).", path, values["iteration"])
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
        """Close the progress line and the event files."""
        if self._progress is not None:
            self._progress.close()
        if self._events is not None:
            getattr(self._events, "close", getattr(self._events, "stop", lambda: None))()


def _link(path: Path, name: Path) -> None:
    """Give a file a second name, replacing what bore it."""
    temporary = name.with_name(f".{name.name}.{os.getpid()}.tmp")
    os.link(path, temporary)
    temporary.replace(name)
