"""The logs of all hosts as one, for as long as somebody looks; the run does not depend on it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from envlab.cluster.hosts import Host
from envlab.cluster.ssh import HostError, Ssh, explain_failure, on_all
from envlab.cluster.state import RunState

RETRY_S = 3.0
PATIENCE_S = 60.0
"""How long a host that is out of reach is asked for once the others have ended."""

_TWICE = re.compile(r"^(\[rank \d+\] )\1")
"""torchrun marks all that ranks print, and they themselves what they log."""
_MARKER = b"--envlab--\n"


class Follower:
    """Prints what every host's log gets, with the host's name before each line."""

    def __init__(self, run: RunState, ssh: Ssh, say: Callable[[str], None]) -> None:
        self._run, self._ssh, self._say = run, ssh, say
        self._width = max(len(host.name) for host in run.hosts)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._streams: dict[Host, subprocess.Popen[bytes]] = {}
        self._ended: dict[Host, float] = {}
        self.lost: dict[Host, str] = {}
        """Hosts that were out of reach at the last look, and why."""
        self._lost_at: dict[Host, float] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=(host,), daemon=True) for host in run.hosts
        ]

    def wait(self) -> None:
        """Print until the run has ended on every host, or on those that can be reached."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.2)

    def close(self) -> None:
        """Stop looking."""
        self._stopped.set()
        for stream in list(self._streams.values()):
            _end(stream)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(5.0)

    def _print(self, host: Host, line: str) -> None:
        with self._lock:
            text = _TWICE.sub(r"\1", line)
            self._say(f"{host.name:<{self._width}} | {text}")

    def _follow(self, host: Host) -> None:
        seen = 0
        folder = self._run.node_of(host).folder
        while not self._stopped.is_set():
            stream = self._ssh.stream(host, "follow.sh", folder, seen)
            self._streams[host] = stream
            if self._stopped.is_set():  # close() may have looked before it was there
                _end(stream)
            seen += self._copy(host, stream)
            assert stream.stderr is not None
            err = stream.stderr.read().decode(errors="replace")
            code = stream.wait()
            stream.stderr.close()
            if self._stopped.is_set():
                return
            if code == 0:
                self._ended[host] = time.monotonic()
                self.lost.pop(host, None)
                return
            problem = explain_failure(err, host, self._ssh) if code == 255 else err.strip()
            if host not in self.lost:
                self._lost_at[host] = time.monotonic()
                self._print(host, f"out of sight, trying again: {problem}")
            self.lost[host] = problem
            if self._has_waited_enough(host):
                return
            self._stopped.wait(RETRY_S)

    def _copy(self, host: Host, stream: subprocess.Popen[bytes]) -> int:
        """Print a stream's whole lines; return how many bytes of the log they are."""
        assert stream.stdout is not None
        seen, is_log = 0, False
        with stream.stdout as lines:
            for line in lines:
                if not is_log:
                    is_log = line == _MARKER
                    continue
                if host in self.lost:
                    self._print(host, "in sight again")
                    del self.lost[host]
                if line.endswith(b"\n"):
                    seen += len(line)
                self._print(host, line.decode(errors="replace").rstrip("\r\n"))
        return seen

    def _has_waited_enough(self, host: Host) -> bool:
        others = [host for host in self._run.hosts if host not in self.lost]
        if not all(host in self._ended for host in others):
            return False
        since = max([*self._ended.values(), self._lost_at[host]])
        return time.monotonic() - since > PATIENCE_S


def _end(stream: subprocess.Popen[bytes]) -> None:
    if stream.poll() is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(stream.pid, signal.SIGKILL)


def collect_codes(run: RunState, ssh: Ssh) -> dict[Host, int | HostError | None]:
    """Return the exit code of each host, None where it has none yet, and note it in the run."""

    def ask(host: Host) -> int | None:
        node = run.node_of(host)
        code, out, err = ssh.feed(
            host, f"cat -- {shlex.quote(node.folder)}/exit_code </dev/null", 30.0
        )
        if code == 255:
            raise HostError(host, explain_failure(err, host, ssh))
        last = out.strip().splitlines()[-1:]
        return int(last[0]) if code == 0 and last else None

    codes = on_all(run.hosts, ask)
    for host, code in codes.items():
        if isinstance(code, int):
            run.node_of(host).exit_code = code
    if all(isinstance(code, int) for code in codes.values()):
        run.status = "ended"
    return codes
