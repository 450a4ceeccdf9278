"""What ``python -m skrl.utils.distributed.jax`` (skrl 2.1.1) lacks: ends that are noticed.

skrl's launcher starts each worker in a wrapper process and ignores how it ends, so a run that
crashed exits with 0, the other workers go on, and workers outlive a launcher that is killed. Here a
worker that finds itself below this launcher splits in two before torch is loaded: a supervisor,
which waits, and the worker proper. When a worker fails, however it ends, its supervisor lets the
others say their own last words, ends those that stay, and then the launcher, whose exit code is
thereby not 0. When the launcher is gone, the supervisor ends its worker.

Only processes that are found below the launcher in /proc are signalled, and the launcher itself
only where its command line proves that it is one.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from envlab.distributed.processes import command_line, start_time, stat_fields

LAUNCHER = "skrl.utils.distributed.jax"
GRACE_S = 10.0
"""How long the other workers may take to end by themselves, as their collectives break."""
TEARDOWN_S = 20.0
"""How long they may take once they were asked to."""
POLL_S = 0.1

_PR_SET_PDEATHSIG = 1


def run_supervised(function: Callable[[], int]) -> int:
    """Return the exit code of ``function()``, under a supervisor where skrl's launcher started us.

    Elsewhere the function is simply called. Call this before torch is loaded: a process with
    threads cannot be split.
    """
    launcher = _find_launcher() if "JAX_RANK" in os.environ else None
    if launcher is None:
        return function()
    count = _workers_per_node(launcher)
    if count is not None:
        os.environ.setdefault("LOCAL_WORLD_SIZE", str(count))
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        _end_with(supervisor)
        return function()
    return _Supervisor(launcher, worker).wait()


class _Supervisor:
    """Waits for a worker, and makes the launcher fail when the worker fails."""

    def __init__(self, launcher: int, worker: int) -> None:
        self._launcher, self._worker = launcher, worker
        self._started = start_time(launcher)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._pass_on)

    def wait(self) -> int:
        """Return the worker's exit code, 128 + the signal's number where a signal ended it."""
        orphaned_at = None
        while True:
            ended, status = os.waitpid(self._worker, os.WNOHANG)
            if ended:
                break
            if not self._launcher_lives():
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
            while self._others() and time.monotonic() < deadline:
                time.sleep(POLL_S)
            for worker in self._others():
                _send(worker, number)
        if self._launcher_lives():
            _send(self._launcher, signal.SIGTERM)

    def _others(self) -> list[int]:
        """Return the workers below the launcher that still run."""
        if not self._launcher_lives():
            return []
        children = _children()
        wrappers = children.get(self._launcher, [])
        supervisors = [child for wrapper in wrappers for child in children.get(wrapper, [])]
        return [worker for one in supervisors for worker in children.get(one, [])]

    def _launcher_lives(self) -> bool:
        """Return whether the launcher runs, and no other process has its number by now."""
        return self._started is not None and start_time(self._launcher) == self._started

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        _send(self._worker, signal.Signals(number))


def _find_launcher() -> int | None:
    """Return the process id of skrl's launcher if it is the parent of this process's parent."""
    wrapper = os.getppid()
    stat = stat_fields(wrapper)
    if stat is None:
        return None
    launcher = int(stat[1])
    words = command_line(launcher)
    is_launcher = ("-m", LAUNCHER) in itertools.pairwise(words)
    return launcher if is_launcher else None


def _workers_per_node(launcher: int) -> int | None:
    """Return how many workers the launcher was told to start, which it does not tell them."""
    words = command_line(launcher)
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--nproc-per-node", "--nproc_per_node", type=int, default=1)
    parser.add_argument("--nnodes")
    parser.add_argument("--node-rank", "--node_rank")
    parser.add_argument("--coordinator-address", "--coordinator_address")
    parser.add_argument("script")
    parser.add_argument("script_args", nargs="...")
    try:
        known, _ = parser.parse_known_args(words[words.index(LAUNCHER) + 1 :])
    except argparse.ArgumentError:
        return None
    return known.nproc_per_node


def _end_with(supervisor: int) -> None:
    """Have the kernel send SIGTERM to this process when its supervisor dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # it died before
        raise SystemExit(1)


def _children() -> dict[int, list[int]]:
    """Return the running children of every process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        stat = stat_fields(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None and stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    return children


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
