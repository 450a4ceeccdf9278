"""A process that has imported the modules of every launch, and forks others that run commands.

Importing torch, MuJoCo and the libraries takes two to four seconds of CPU a process; a fork takes
ten milliseconds. :class:`ForkServer` is the client, one for each pytest process; all of xdist's
workers use the server of the process that starts them. A forked command is as if executed: own
session, environment, arguments, working folder, output, default signals and no inherited files. Its
``/proc/<pid>/environ`` and ``cmdline`` are also the command's, because envlab reads its launcher's,
and the tests find their processes by a mark in them. Workers of torchrun are forked as well, by
torchrun itself: only process creation is replaced.

A fork hides differences between processes that import by themselves, such as the order of sets
of strings. So ``./envlab.sh test --all`` executes every command.

Forking is safe because the server never has a second thread: nothing here computes on tensors.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

_ROOM = 60_000
"""Bytes for a fork's arguments, and as many for its environment (see proc(5))."""
_ROOM_NAME = "ENVLAB_TEST_ROOM"
FORK_SERVER = "ENVLAB_TEST_FORK_SERVER"
"""Where the server of all workers listens."""
REAL_LAUNCHES = "ENVLAB_TEST_REAL_LAUNCHES"
_READ_AT_IMPORT = ("OMP_", "MKL_", "KMP_", "MUJOCO_", "PYTHON", "TORCH_DISTRIBUTED", "TORCH_CPP")
"""Prefixes of variables that count when a process begins or imports: a fork has the server's."""
_PRELOADED = (
    "envlab.cli",  # first: it sets variables that OpenMP reads when loaded
    *("torch", "torch.distributed.run", "torch.utils.tensorboard", "tensordict"),
    *("gymnasium", "mujoco.batch", "rsl_rl.runners", "rl_games.torch_runner"),
    *("hydra.core.override_parser.overrides_parser", "envlab.envs", "envlab.config"),
)
_JAX = "skrl.utils.distributed.jax"
_NOT_INHERITED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)

STACKS = signal.SIGRTMIN + 2
"""Has a fork write the stacks of its threads to its output."""


# ---- the client ----------------------------------------------------------------------------------


class ForkServer:
    """The server's client; it starts the server with the first command, if there is none yet."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._settings: dict[str, str] = {}
        self._life = -1

    def can_run(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Return whether a fork runs this command as an execution would."""
        if os.environ.get(REAL_LAUNCHES) or words[0] != sys.executable or _JAX in words:
            return False
        if "-c" in words or "--video" in words:  # code that looks at imports; OpenGL's, for MuJoCo
            return False
        if self._control is None:
            if FORK_SERVER not in os.environ:
                self.start(environment)
            self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._control.connect("\0" + os.environ[FORK_SERVER])
            self._settings = json.loads(self._control.recv(2**20))
        return _settings(environment) == self._settings

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the server, without the marks of :mod:`tests.left_behind` and of a launch."""
        clean = {
            name: value
            for name, value in environment.items()
            if not name.startswith(("ENVLAB_TEST_", "PYTEST_"))
        }
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = f"envlab-test-{uuid.uuid4().hex}"
        listener.bind("\0" + name)  # which is no file
        listener.listen()
        life, self._life = os.pipe()  # the server ends with its starter, who alone can write to it
        files = [str(listener.fileno()), str(life)]
        self._process = subprocess.Popen(
            [sys.executable, __file__, *files, "-" * _ROOM],
            env=clean | {_ROOM_NAME: "-" * _ROOM},
            pass_fds=[listener.fileno(), life],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for pytest
        )
        os.environ[FORK_SERVER] = name
        os.close(life)
        listener.close()
        atexit.register(self.close)

    def run(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], output: int
    ) -> ForkedProcess:
        """Start a command whose output goes to a file descriptor."""
        ours, theirs = socket.socketpair()
        request = {"words": list(words), "cwd": str(cwd), "environment": dict(environment)}
        assert self._control is not None
        socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno(), output])
        theirs.close()
        return ForkedProcess(ours, words)

    def close(self) -> None:
        """End the server; its forks keep running."""
        if self._process is not None:
            os.close(self._life)
            self._process.wait(10)
            self._process = None


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(_READ_AT_IMPORT)}


class ForkedProcess:
    """The part of ``subprocess.Popen`` that tests use; the server is the parent."""

    def __init__(self, status: socket.socket, words: Sequence[str]) -> None:
        self.args = words
        self.returncode: int | None = None
        self._status = status
        self._file = status.makefile("r")
        self.pid = int(self._file.readline())

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, as ``subprocess.Popen.wait``."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._file.readline())
            self._file.close()
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


# ---- the server ----------------------------------------------------------------------------------


def preload() -> None:
    """Import slow modules that do not look at a run's environment."""
    for name in _PRELOADED:
        importlib.import_module(name)


def serve(listener: socket.socket, life: int) -> dict[str, Any]:
    """Fork a process for each request, and report its end; return the request in the fork.

    Args:
        listener: Where clients come.
        life: A pipe's end, which can be read once who started the server has ended.
    """
    running: dict[int, socket.socket] = {}
    clients: dict[int, socket.socket] = {}
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        readable, *_ = select.select([listener.fileno(), life, ended, *clients], [], [])
        if life in readable:
            os._exit(0)
        if listener.fileno() in readable:
            client, _ = listener.accept()
            clients[client.fileno()] = client
            client.send(json.dumps(_settings(os.environ)).encode())
        if ended in readable:
            os.read(ended, 4096)
            for pid in list(running):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    code = os.waitstatus_to_exitcode(status)
                    with running.pop(pid) as teller, contextlib.suppress(OSError):
                        teller.sendall(f"{code}\n".encode())
        for number in clients.keys() & readable:
            message, files, *_ = socket.recv_fds(clients[number], 2**20, 2)
            if not message:  # a worker has ended
                clients.pop(number).close()
                continue
            request, (report, output) = json.loads(message), files
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                return request | {"output": output, "report": report}
            os.close(output)
            running[pid] = socket.socket(fileno=report)


def become(
    words: Sequence[str],
    environment: Mapping[str, str],
    output: int | None = None,
    report: int | None = None,
) -> None:
    """Make a fork look like an execution in a separate session.

    Args:
        words: The command.
        environment: All its variables.
        output: Where its output goes; None: where its parent's does.
        report: Where to write its process id once it bears its variables.
    """
    os.setsid()
    for number in _NOT_INHERITED:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environment)
    _show_in_proc(words, environment)
    if report is not None:
        os.write(report, f"{os.getpid()}\n".encode())
    faulthandler.register(STACKS, sys.stderr)
    os.closerange(3, 4096)
    sys.stdout.reconfigure(write_through="-u" in words)  # type: ignore[union-attr]
    sys.orig_argv[:] = words
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _show_in_proc(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Overwrite the contents of /proc/self/cmdline and environ; libc no longer refers to them."""
    places = list(map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49]))
    variables = [f"{name}={value}" for name, value in environment.items()]
    for texts, (start, end) in ((words, places[:2]), (variables, places[2:])):
        data = b"".join(os.fsencode(text) + b"\0" for text in texts)
        assert len(data) <= end - start, "more arguments or variables than there is room for"
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, data, len(data))


def execute(words: Sequence[str]) -> None:
    """Run ``python [-u] [-m MODULE | SCRIPT] ARGUMENT...`` in this process."""
    rest = list(words[1:])
    while rest[0] == "-u":
        rest.pop(0)
    if rest[0] == "-m":
        module, *sys.argv[1:] = rest[1:]
        if module in ("torch.distributed.run", "envlab.distributed.torchrun"):
            _fork_workers()
        sys.modules.pop(module, None)  # else runpy warns that it is loaded
        sys.path[0] = os.getcwd()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = rest
        sys.path[0] = os.path.dirname(os.path.realpath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")


# ---- torchrun's workers --------------------------------------------------------------------------


def _fork_workers() -> None:
    """Have torchrun, in this process, fork its workers."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    def popen(self: Any, args: tuple[str, ...], env: dict[str, str]) -> _Child | Any:
        is_plain = args[0] == sys.executable and self._stdout is None and self._stderr is None
        return _Child(args, env) if is_plain else executed(self, args, env)

    # private: this is where torchrun starts a process
    executed = subprocess_handler.SubprocessHandler._popen
    # private: and here it is given another way
    subprocess_handler.SubprocessHandler._popen = popen  # type: ignore[method-assign,assignment]


class _Gate:
    """Holds the workers of a start back until all of them are forked.

    Torchrun has threads by now. That of its store looks up the name of each worker that connects,
    for which it takes a lock of the C library. A worker that was forked meanwhile would have it
    locked for ever, and hang in its own first lookup (of 1,000 launches of three, several did).
    """

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    def fork(self) -> int:
        """Fork as ``os.fork()``; the child returns once the gate is open."""
        if self._ends is None:
            self._ends = os.pipe()
        pid = os.fork()
        if pid == 0:
            wait, hold = self._ends
            os.close(hold)
            os.read(wait, 1)  # nothing, when the parent opens the gate, or ends
        return pid

    def open(self) -> None:
        """Let the workers go."""
        if self._ends is not None:
            for end in self._ends:
                os.close(end)
            self._ends = None


_GATE = _Gate()


class _Child:
    """The part of ``subprocess.Popen`` that torchrun uses, for a forked child."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = _GATE.fork()
        if self.pid == 0:
            _run_below(words, environment)

    def poll(self) -> int | None:
        _GATE.open()  # torchrun looks at its workers once it has started all
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            time.sleep(0.005)
        return code


def _run_below(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command in a fork of torchrun, and end it as Python ends, without torchrun's own end.

    The frames of torchrun below stay as they are: nothing may go through them.
    """
    run_to_the_end(words, lambda: become(words, environment))


def run_to_the_end(words: Sequence[str], prepare: Callable[[], None]) -> NoReturn:
    """Run a command, and end the process like Python, but without freeing its objects.

    To free them is to write to, and so copy, all memory that a fork shares: half a second of CPU.
    """
    code: object = 0
    try:
        prepare()
        execute(words)
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        code = 1
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):  # as Python ends
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    # What Py_FinalizeEx calls, in its order, before it frees anything.
    threading._shutdown()  # type: ignore[attr-defined]  # private: see above
    atexit._run_exitfuncs()  # private: see above
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or without a reader
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(int(code or 0) & 0xFF)


if __name__ == "__main__":
    gc.disable()  # else it looks at the growing heap again and again
    preload()
    gc.collect()
    gc.freeze()
    gc.enable()
    asked = serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    try:
        os.chdir(asked["cwd"])
        become(asked["words"], asked["environment"], asked["output"], asked["report"])
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    run_to_the_end(asked["words"], lambda: None)
