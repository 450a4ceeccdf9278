"""A child process that runs a function, and that ends however this process ends.

A child is not forked, as a fork would copy the locks of torch's threads, and not spawned by
:mod:`multiprocessing`, which would run the user's script again.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import IO, Any

from envlab.errors import EnvlabError

LOOK_S = 0.5
"""Time between two checks of whether the parent is alive."""
LAST_S = 5.0
"""Time limit of a child for ending once its connection is closed."""

_CODE = "import sys; sys.path[:] = {path!r}; from envlab.child import main; main(*sys.argv[1:])"


class ChildError(EnvlabError):
    """A child raised an exception or ended; the text states which, without naming the child."""

    same_on_all_ranks = False


class SilentChildError(ChildError):
    """A child has not answered in time."""


class Child(contextlib.AbstractContextManager["Child"]):
    """A process in its own session: Ctrl-C in a terminal reaches only the parent.

    Attributes:
        connection: Connection to the function's first argument.
        timeout_s: Time limit of an answer, from the start or from the last message.
    """

    def __init__(
        self,
        function: str,
        *arguments: object,
        timeout_s: float = 60.0,
        environ: Mapping[str, str | None] | None = None,
        fds: Sequence[int] = (),
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        kill_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        """Start it.

        Args:
            function: Function to call in the child, ``module:name``, with a connection to this
                process and the arguments. Its result, or an ``EnvlabError`` that it raises, is the
                last answer.
            arguments: Anything that can be pickled.
            timeout_s: See above.
            environ: Environment variables to change; None removes one.
            fds: File descriptors that it inherits, under the same numbers.
            stdout: As in ``subprocess.Popen``.
            stderr: As in ``subprocess.Popen``.
            kill_signal: The signal for it and its process group when this process has ended.
        """
        self.timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self.connection: Connection
        self.connection, theirs = multiprocessing.Pipe()
        words = [function, theirs.fileno(), os.getpid(), int(kill_signal)]
        variables = {**os.environ, **(environ or {})}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _CODE.format(path=sys.path), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(theirs.fileno(), *fds),
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,
            )
        with contextlib.suppress(OSError):  # it has already ended; receive() reports how
            self.connection.send(arguments)

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def exit_code(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it; None while it runs."""
        return self.process.poll()

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            ChildError: If the child has ended.
        """
        self._deadline = time.monotonic() + self.timeout_s
        try:
            self.connection.send(message)
        except OSError:
            raise self._lost() from None

    def receive(self) -> Any:
        """Return the next answer.

        Raises:
            ChildError: If there is none in time, or the child raised an exception or has ended.
            EnvlabError: The child's, if it raised one.
        """
        try:
            if not self.connection.poll(max(0.0, self._deadline - time.monotonic())):
                raise SilentChildError(f"no answer within {self.timeout_s:g} s")
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(answer, EnvlabError):
            raise answer
        return answer

    def ask_to_end(self) -> None:
        """Close the connection, and send SIGTERM."""
        self.connection.close()
        if self.exit_code is None:
            self.process.terminate()

    def end(self, grace_s: float = 0.0) -> None:
        """End it and all that it started, after waiting ``grace_s`` seconds for it to exit."""
        end_all([self], grace_s)

    def _lost(self) -> ChildError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return ChildError(how_it_ended(self.process.wait(LAST_S)))
        return ChildError("no longer listens")


def end_all(children: Iterable[Child], grace_s: float) -> None:
    """End children at the same time: ask each, and kill those that take more than ``grace_s``."""
    children = list(children)
    deadline = time.monotonic() + grace_s
    if grace_s > 0.0:
        for child in children:
            child.ask_to_end()
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, deadline - time.monotonic()))
        kill_group(child.process)
        child.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for a dead disk or device
            child.process.wait(LAST_S)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill the leader of a process group and the group, unless it has ended.

    Its number may belong to another process then.
    """
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """Describe how a process ended, from its exit code or the negative number of a signal."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _end_with_parent(parent: int, number: int) -> None:
    """Signal this process, and the group that it leads, once ``parent`` is no longer its parent.

    The kernel's own way, PR_SET_PDEATHSIG, would not reach the group, and would be triggered by the
    end of the thread that started the child.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os.killpg(0, number)

    threading.Thread(target=watch, daemon=True).start()


def main(function: str, descriptor: str, parent: str, kill_signal: str) -> None:
    """Call a function in the child; see :class:`Child`."""
    _end_with_parent(int(parent), int(kill_signal))
    connection = Connection(int(descriptor))
    module, _, name = function.partition(":")
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent's end
        try:
            arguments = connection.recv()
            answer = getattr(importlib.import_module(module), name)(connection, *arguments)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except EnvlabError as error:
            answer = error
        except Exception as error:
            traceback.print_exc()
            answer = ChildError(" ".join(f"{type(error).__name__}: {error}".split()))
        connection.send(answer)
