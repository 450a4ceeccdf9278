"""Real processes for tests: started with a deadline, and none of them left behind.

torchrun puts every worker into a separate session, so a process group does not hold a launch
together. Each launch carries a token in its environment, by which exactly its own processes are
found.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fork_server import FORK_SERVER, STACKS, ForkedProcess, ForkServer
from tests.marked import marked, still_marked

ROOT = Path(__file__).parents[1]
TRAIN = ROOT / "scripts/reinforcement_learning/rsl_rl/train.py"
PLAY = ROOT / "scripts/reinforcement_learning/rsl_rl/play.py"
DEADLINE_S = 240.0
"""Only a hang may reach it: CI's machine is at times ten times slower than ours."""

_TOKEN = "ENVLAB_TEST_LAUNCH"
_FORK_SERVER = ForkServer()


def variables() -> dict[str, str]:
    """Return the variables of launches, but for their tokens."""
    others = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", FORK_SERVER)
    ours = {name: value for name, value in os.environ.items() if name not in others}
    return {**ours, "PYTHONPATH": f"{ROOT}:{ROOT / 'source'}", "OMP_NUM_THREADS": "1"}


def start_fork_server() -> None:
    """Start the server that forks the launches of all of xdist's workers."""
    _FORK_SERVER.start(variables())


class Launch:
    """A command and everything that it starts; a script of ours is forked where it can be."""

    process: subprocess.Popen[bytes] | ForkedProcess

    def __init__(self, command: Sequence[str | Path], cwd: Path, *, execute: bool = False) -> None:
        """Start it.

        Args:
            command: Its words.
            cwd: Where it runs, and where its output is kept.
            execute: Whether it must not be forked.
        """
        self._token = uuid.uuid4().hex
        self.folder = cwd
        self._output = cwd / f"output_{self._token[:8]}.txt"
        environment = {**variables(), _TOKEN: self._token}
        words = [str(word) for word in command]
        with self._output.open("wb") as output:
            if not execute and _FORK_SERVER.can_run(words, environment):
                self.process = _FORK_SERVER.run(words, cwd, environment, output.fileno())
                return
            self.process = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """The output of all its processes so far."""
        return self._output.read_text(errors="replace")

    def living(self) -> dict[int, int | None]:
        """Return its running processes, and the rank of each (None: the launcher or a helper)."""
        return _with_ranks(marked(_TOKEN, self._token))

    def left(self, grace_s: float = 5.0) -> dict[int, int | None]:
        """Return the processes that outlive it, after a grace period for Python's helpers."""
        return _with_ranks(still_marked(_TOKEN, self._token, grace_s))

    def pid_of_rank(self, rank: int) -> int:
        """Return the process id of a rank."""
        return min(pid for pid, other in self.living().items() if other == rank)

    def wait_until(self, condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
        """Wait until a running launch has done something; fail if it ends or is too slow."""
        end = time.monotonic() + deadline_s
        while not condition():
            if self.process.poll() is not None:  # perhaps it did it last
                assert condition(), f"ended too early:\n{self.output}"
                return
            assert time.monotonic() < end, f"waited {deadline_s} s in vain:\n{self.output}"
            time.sleep(0.05)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Return the exit code."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._ask_for_stacks()
            raise AssertionError(f"ran for more than {deadline_s} s:\n{self.output}") from None

    def _ask_for_stacks(self) -> None:
        """Have those processes that can write their threads' stacks to the output do so."""
        bit = 1 << (STACKS - 1)
        for pid in self.living():
            status = Path(f"/proc/{pid}/status").read_text()
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
            if caught & bit:
                os.kill(pid, STACKS)
                time.sleep(0.5)

    def close(self) -> None:
        """Kill its remaining processes."""
        for pid in self.living():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(10)


def _with_ranks(processes: dict[int, list[str]]) -> dict[int, int | None]:
    found: dict[int, int | None] = {}
    for pid, variables in processes.items():
        named = [word for word in variables if word.startswith(("RANK=", "JAX_RANK="))]
        ranks = [word.partition("=")[2] for word in named]
        found[pid] = int(ranks[0]) if ranks else None
    return found


def torchrun(num_processes: int, script: str | Path, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs a script on several local processes, on a free port."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1"]
    rendezvous = ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0"]
    return [*launcher, f"--nproc_per_node={num_processes}", *rendezvous, script, *arguments]


def run(
    command: Sequence[str | Path],
    cwd: Path,
    deadline_s: float = DEADLINE_S,
    *,
    execute: bool = False,
) -> tuple[int, str]:
    """Run a command to its end; return the exit code and its processes' output."""
    launch = Launch(command, cwd, execute=execute)
    try:
        return launch.wait(deadline_s), launch.output
    finally:
        launch.close()
