"""Supervision that ``python -m skrl.utils.distributed.jax`` (skrl 2.1.1) lacks.

skrl's launcher starts each worker in a wrapper process and ignores how it ends, so a crashed run
exits with 0, the other workers continue, and workers outlive a killed launcher. Here a worker that
was started by this launcher splits in two before torch is loaded: a supervisor, which waits, and
the actual worker. When a worker fails in any way, its supervisor gives the others time to report,
ends those that remain, and then the launcher, whose exit code is then not 0. When the launcher has
exited, the supervisor ends its worker.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType

import psutil

from envlab.distributed.processes import state_of

LAUNCHER = "skrl.utils.distributed.jax"
GRACE_S = 10.0
"""How long the other workers may take to end by themselves as their collectives break."""
TEARDOWN_S = 20.0
"""How long they may take once they were asked to."""
POLL_S = 0.1


def run_supervised(function: Callable[[], int]) -> int:
    """Return the exit code of ``function()``, under a supervisor if skrl's launcher started us.

    Otherwise the function is simply called. Call this before torch is loaded, because a process
    with threads cannot be forked safely.
    """
    launcher = _find_launcher()
    if launcher is None:
        return function()
    count = _workers_per_node(launcher.cmdline())
    if count is not None:
        os.environ.setdefault("LOCAL_WORLD_SIZE", str(count))
    worker = os.fork()
    if worker == 0:
        return function()
    return _Supervisor(launcher, worker).wait()


class _Supervisor:
    """Waits for a worker, and makes the launcher fail when the worker fails."""

    def __init__(self, launcher: psutil.Process, worker: int) -> None:
        self._launcher, self._worker = launcher, psutil.Process(worker)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._pass_on)

    def wait(self) -> int:
        """Return the worker's exit code, or 128 + the number of the signal that ended it."""
        orphaned_at = None
        while True:
            ended, status = os.waitpid(self._worker.pid, os.WNOHANG)
            if ended:
                break
            if state_of(self._launcher) == "gone":
                orphaned_at = orphaned_at or time.monotonic()
                is_late = time.monotonic() - orphaned_at > TEARDOWN_S
                _send(self._worker, signal.SIGKILL if is_late else signal.SIGTERM)
            time.sleep(POLL_S)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            self._fail()
        return code if code >= 0 else 128 - code

    def _fail(self) -> None:
        """End the other workers and the launcher."""
        for seconds, number in ((GRACE_S, signal.SIGTERM), (TEARDOWN_S, signal.SIGKILL)):
            deadline = time.monotonic() + seconds
            while self._workers() and time.monotonic() < deadline:
                time.sleep(POLL_S)
            for worker in self._workers():
                _send(worker, number)
        _send(self._launcher, signal.SIGTERM)

    def _workers(self) -> list[psutil.Process]:
        """Return the workers still running, below the launcher, a wrapper and a supervisor."""
        wrappers = _children([self._launcher])
        return _children(_children(wrappers))

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        _send(self._worker, signal.Signals(number))


def _find_launcher() -> psutil.Process | None:
    """Return skrl's launcher if it started the wrapper that started this process."""
    ancestors = psutil.Process().parents()
    if len(ancestors) < 2:
        return None
    try:
        words = ancestors[1].cmdline()
    except psutil.Error:  # gone, or another user's
        return None
    return ancestors[1] if ("-m", LAUNCHER) in itertools.pairwise(words) else None


def _workers_per_node(words: Sequence[str]) -> int | None:
    """Return how many workers the launcher was asked to start, which it does not pass on."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--nproc-per-node", "--nproc_per_node", type=int, default=1)
    parser.add_argument("--nnodes")
    parser.add_argument("--node-rank", "--node_rank")
    parser.add_argument("--coordinator-address", "--coordinator_address")
    parser.add_argument("script")
    parser.add_argument("script_args", nargs="...")
    try:
        known, _ = parser.parse_known_args(words[words.index(LAUNCHER) + 1 :])
    except (argparse.ArgumentError, ValueError):
        return None
    return known.nproc_per_node


def _children(parents: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return the children of some processes, without zombies."""
    found = []
    for parent in parents:
        with contextlib.suppress(psutil.Error):
            found += parent.children()
    return [child for child in found if state_of(child) != "gone"]


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
