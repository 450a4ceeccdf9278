"""Environments in worker processes, over shared memory."""

from __future__ import annotations

import contextlib
import itertools
import logging
import mmap
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from envlab.child import Child, ChildError, SilentChildError, end_all
from envlab.errors import SimulationError
from envlab.host.batch import TRIAL_STEPS, Arrays, Batch, Ended, LocalBatch, measure_step_s
from envlab.host.maker import EnvMaker
from envlab.host.spaces import Actions, Observations
from envlab.host.worker import Share

logger = logging.getLogger(__name__)

WORTH_S = 1e-3
"""A step of all environments that takes less in one process is never distributed."""
CLOSE_S = 5.0
"""Time limit of workers for closing their environments before they are killed."""


def make_batch(
    maker: EnvMaker,
    num_envs: int,
    *,
    num_workers: int | None,
    num_threads: int = 1,
    first_env: int = 0,
    timeout_s: float = 120.0,
    render_mode: str | None = None,
) -> tuple[Batch, gymnasium.Env[Any, Any]]:
    """Return environments, and a closed environment that has their spaces.

    Args:
        maker: Makes an environment.
        num_envs: Number of environments.
        num_workers: Processes that step them; 0: this one; None: measure whether workers pay.
        num_threads: Processor cores that this process may use, for the measurement.
        first_env: Global index of the first one, for messages.
        timeout_s: Time limit of workers for a step, or to start.
        render_mode: Render mode of the first one.

    Raises:
        ConfigurationError: If they cannot be made.
        SimulationError: If a worker does not start.
    """
    model = maker.make(render_mode)
    together_s = 0.0
    if num_workers is None and min(num_envs, num_threads) > 1:
        together_s = num_envs * _step_s(model, maker)
    model.close()
    observations, actions = Observations(model.observation_space), Actions(model.action_space)
    layout = Arrays.layout(num_envs, observations, actions)
    if num_workers or together_s > WORTH_S:
        count = min(num_threads if num_workers is None else num_workers, num_envs)
        bounds = [num_envs * worker // count for worker in range(count + 1)]
        shares = [
            Share(maker, layout, start, stop, first_env + start, None if start else render_mode)
            for start, stop in itertools.pairwise(bounds)
        ]
        workers = WorkerBatch(shares, timeout_s)
        if num_workers is not None or _pays(workers, actions.draw(num_envs), together_s):
            return workers, model
        workers.close()
    arrays = Arrays.on(bytearray(Arrays.size(layout)), layout)
    return LocalBatch(maker, arrays, first_env, render_mode), model


class WorkerBatch:
    """A :class:`Batch` whose environments are in worker processes."""

    def __init__(self, shares: list[Share], timeout_s: float) -> None:
        """Start the workers, and wait until all have made their environments.

        Args:
            shares: Each worker's share.
            timeout_s: Time limit of each of their answers.

        Raises:
            EnvlabError: If a worker raised one, or does not answer.
        """
        self._name = shares[0].maker.spec.id
        # No name and no owner: it is freed when the last process that holds it ends.
        memory = os.memfd_create("envlab_gymnasium")
        self.workers: list[_Worker] = []
        self._finish = weakref.finalize(self, end_all, self.workers, CLOSE_S)  # also at exit
        try:
            os.ftruncate(memory, Arrays.size(shares[0].layout))
            self.arrays = Arrays.on(mmap.mmap(memory, 0), shares[0].layout)
            self.workers.extend(_Worker(share, memory, timeout_s) for share in shares)
            for worker in self.workers:
                self.answer(worker)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def __len__(self) -> int:
        return len(self.workers)

    def reset(self) -> None:
        self._call("reset")

    def step(self) -> Ended:
        ended: Ended = []
        for worker, results in zip(self.workers, self._call("step"), strict=True):
            ended += [(worker.share.start + row, info) for row, info in results]
        return ended

    def set_elapsed(self) -> None:
        self._call("set_elapsed")

    def render(self) -> Any:
        return self._call("render", self.workers[:1])[0]

    def close(self) -> None:
        self._finish()

    def _call(self, name: str, workers: Sequence[_Worker] | None = None) -> list[Any]:
        """Return the answers of all workers, or of some."""
        workers = workers or self.workers
        for worker in workers:
            with self._naming(worker):
                worker.send(name)
        return [self.answer(worker) for worker in workers]

    def answer(self, worker: _Worker) -> Any:
        """Return a worker's answer to the last call."""
        with self._naming(worker):
            return worker.receive()

    @contextlib.contextmanager
    def _naming(self, worker: _Worker) -> Iterator[None]:
        """Name the environments of a failing worker in its error."""
        try:
            yield
        except ChildError as error:
            hint = "With env.num_workers=0 they run in this process, where you can debug them."
            if isinstance(error, SilentChildError):
                hint = "Raise env.worker_timeout_s if they are that slow."
            share = worker.share
            last = share.first_env + share.stop - share.start - 1
            raise SimulationError(
                f"The worker of environments {share.first_env} to {last} of gym:{self._name} "
                f"failed ({error}). {hint}"
            ) from error


class _Worker(Child):
    """One process."""

    def __init__(self, share: Share, memory: int, timeout_s: float) -> None:
        self.share = share
        super().__init__(
            "envlab.host.worker:main",
            *(cloudpickle.dumps(share), memory),
            timeout_s=timeout_s,
            environ={"OMP_NUM_THREADS": "1"},
            fds=(memory,),
        )


def _step_s(model: gymnasium.Env[Any, Any], maker: EnvMaker) -> float:
    """Return the time of a step of one environment, in seconds.

    Raises:
        SimulationError: If it fails.
    """
    try:
        return measure_step_s(model)
    except Exception as error:
        raise SimulationError(
            f"gym:{maker.spec.id} fails in its first steps ({type(error).__name__}: {error})."
        ) from error


def _pays(workers: WorkerBatch, actions: np.ndarray, together_s: float) -> bool:
    """Return whether workers step faster than one process, and log the result."""
    arrays = workers.arrays
    arrays.mask[:], arrays.actions[:] = True, actions
    workers.reset()
    start = time.perf_counter()
    for _ in range(TRIAL_STEPS):
        workers.step()
    apart_s = (time.perf_counter() - start) / TRIAL_STEPS
    logger.info(
        "A step of %d environments takes about %.1f ms in one process and %.1f ms in %d worker "
        "processes: using %s. env.num_workers sets it.",
        len(actions),
        1000.0 * together_s,
        1000.0 * apart_s,
        len(workers),
        "workers" if apart_s < together_s else "one process",
    )
    return apart_s < together_s
