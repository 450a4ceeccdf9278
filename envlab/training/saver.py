"""Checkpoints of a run: when to write one, their contents, and resuming from one."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.agent_cfg import AgentCfg
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import (
    continued_seed,
    generator_state,
    seed_everything,
    set_generator_state,
)
from envlab.envs import BatchedEnv
from envlab.errors import ResultLostError
from envlab.foreign import printable
from envlab.learner import IterationRecord, Learner
from envlab.run.checkpoints import Checkpoints
from envlab.run.directory import Run
from envlab.state import State, deal, restore, save
from envlab.training.continuation import MOST_TOLD, How, describe_resume, resume_mode, share_of
from envlab.training.metrics import EpisodeTracker, RunMetrics

logger = logging.getLogger(__name__)


class Saver:
    """Writes a run's checkpoints on rank 0, with every rank's part, and restores them.

    A rank's part has the state of its ``env``, its ``episodes`` and its ``learner``, as they
    declare it (:mod:`envlab.state`), and its process's ``generators``.

    Attributes:
        last_checkpoint: The newest checkpoint of this run, on rank 0.
        good_checkpoint: The same, or before there is one, the checkpoint that the run began with.
        is_result_lost: Whether the last checkpoint could not be written, on rank 0.
    """

    STATE = State(parts=("_env", "_episodes", "_learner"))

    def __init__(
        self,
        learner: Learner,
        env: BatchedEnv,
        context: DistributedContext,
        run: Run,
        tracker: EpisodeTracker,
        metrics: RunMetrics,
        cfg: AgentCfg,
        origin: Mapping[str, Any],
    ) -> None:
        """Write nothing yet; see :class:`envlab.training.loop.Training`."""
        self._learner, self._env, self._context, self._run = learner, env, context, run
        self._episodes, self._metrics = tracker, metrics
        self._origin, self._seed = dict(origin), cfg.seed
        self._interval_s = 60.0 * cfg.save_interval_minutes
        self._saved_at = time.monotonic()
        self._kept_return: float | None = None  # of best.pt; only rank 0 knows it
        self._checkpoints = Checkpoints(
            run.checkpoints, keep=cfg.keep_checkpoints, moved=context.progress.mark
        )
        self.last_checkpoint: Path | None = None
        self.good_checkpoint: str | None = None
        self.is_result_lost = False

    def is_checkpoint_due(self, now: float) -> bool:
        """Return whether a checkpoint is due by rank 0's clock, ``time.monotonic()``."""
        return self._context.is_main and 0 < self._interval_s <= now - self._saved_at

    def save(self, record: IterationRecord) -> None:
        """Write a checkpoint of an iteration. Called by every rank."""
        ranks = self._context.gather_to_main({**save(self), "generators": generator_state()})
        mean_return = self._learner.merit(record)
        self._metrics.note_return(mean_return)
        self._saved_at = time.monotonic()
        if ranks is None:
            return
        kept = self._kept_return
        is_best = mean_return is not None and (kept is None or mean_return >= kept)
        best_return = mean_return if is_best else kept
        values = {
            **self._origin,
            "iteration": record.iteration,
            "frames": record.frames,
            "seed": self._seed,
            "world_size": self._context.world_size,
            "num_envs": self._env.num_envs,
            "model": self._learner.model_state(),
            "metrics": self._metrics.state() | {"best_return": best_return},
            "ranks": ranks,
            "services": self._run.services,
        }
        path = self._checkpoints.save(record.iteration, values, is_best=is_best)
        self.is_result_lost = path is None
        if path is not None:
            self.last_checkpoint, self._kept_return = path, best_return
            self.good_checkpoint = str(path)
        self._run.update(iteration=record.iteration, frames=record.frames, mean_return=mean_return)

    def check_result(self) -> None:
        """Check, on every rank after the last iteration, that the last checkpoint was written.

        Raises:
            ResultLostError: On every rank, if it could not be written.
        """
        if self._context.broadcast(self.is_result_lost):
            raise ResultLostError(
                "The run is done, but its last checkpoint could not be written, so its result is "
                "lost; the log says why. Fix that, and resume from the last good one with --resume "
                "and the same --max_iterations."
            )

    def restore(
        self,
        values: Mapping[str, Any],
        path: str,
        changed: Mapping[str, tuple[Any, Any]],
        other_code: Mapping[str, tuple[Any, Any]],
        *,
        deals: bool,
    ) -> None:
        """Resume from a checkpoint: exactly, if the ranks, environments and code are the same.

        Args:
            values: Contents of the checkpoint.
            path: The checkpoint's file.
            changed: Settings that differ from the run's: its values, and ours.
            other_code: Code and packages that differ.
            deals: Whether environments can be dealt to another number of ranks.
        """
        _tell_differences(changed, other_code)
        self._metrics.set_state(values["metrics"])
        self.good_checkpoint = path
        best = self._metrics.best_return
        if self._context.is_main and self._checkpoints.keep_best_of(Path(path).parent, best):
            self._kept_return = best
        rank, world_size = self._context.rank, self._context.world_size
        how = resume_mode(values, world_size, self._env.num_envs, self._seed, deals=deals)
        self._tell(values, path, how, is_same=not changed and not other_code)
        if how == "anew":
            return
        mine = dict(values["ranks"][rank])
        generators = mine.pop("generators", None)
        if how == "dealt":
            mine = deal(self, mine["ranks"], share_of(values, rank, world_size))
            seed_everything(continued_seed(self._seed, values["iteration"]) + rank)
        if not self._env.resumes_exactly:
            mine["episodes"] = None
        restore(self, mine, self._context.device)
        if generators is not None:
            set_generator_state(generators)

    def _tell(self, values: Mapping[str, Any], path: str, how: How, *, is_same: bool) -> None:
        """Log how the run resumes from a checkpoint; ``is_same``: with equal settings and code."""
        env, at = self._env, f"{path} (iteration {values['iteration']})"
        if how == "as it was" and env.resumes_exactly:
            exactly = "exactly " if env.repeats_exactly and is_same else ""
            logger.info("Resuming %sfrom %s.", exactly, at)
            if not env.repeats_exactly:
                logger.info(
                    "A GPU sums constraints in a different order in each run. From here on, this "
                    "run may differ by rounding from an uninterrupted one."
                )
            return
        what = describe_resume(
            values,
            how,
            self._context.world_size,
            env.num_envs,
            resumes_exactly=env.resumes_exactly,
        )
        logger.info("Resuming from %s%s %s.", at, "" if how == "dealt" else ":", what)


def _tell_differences(
    changed: Mapping[str, tuple[Any, Any]], other_code: Mapping[str, tuple[Any, Any]]
) -> None:
    """Log what differs from the run that is resumed."""
    if other_code:
        logger.warning(
            "The run was made with other code: %s. From here on it may differ from an "
            "uninterrupted run; to continue it exactly, install the same code.",
            "; ".join(
                printable(f"{name!s:.80} was {then!s:.80}, and is {now or 'not here'}")
                for name, (then, now) in list(other_code.items())[:MOST_TOLD]
            ),
        )
    if changed:
        logger.info(
            "Continuing with settings that differ from the run's: %s.",
            ", ".join(
                f"{name}={now}" + ("" if isinstance(then, Mapping) else f" (was {then})")
                for name, (then, now) in changed.items()
            ),
        )
