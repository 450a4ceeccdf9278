"""Watching a run: the logs of all its hosts as one, Ctrl-C, exit codes, and its run directory.

The run continues without a watcher.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from envlab.child import kill_group
from envlab.interrupts import INTERRUPTED, ending_in_order
from envlab_cluster.hosts import Host
from envlab_cluster.processes import describe, is_over, stop_run
from envlab_cluster.report import fetch_here
from envlab_cluster.ssh import HostError, Ssh, explain_failure, on_all
from envlab_cluster.state import RunState

RETRY_S = 3.0
PATIENCE_S = 60.0
"""How long an unreachable host is retried once the others have ended."""
_TWICE = re.compile(r"^(\[rank \d+\] )\1")
"""torchrun prefixes all output of ranks, and they prefix their own log lines."""
_MARKER = b"--envlab--\n"


def attend(run: RunState, ssh: Ssh, *, fetch: bool, say: Callable[[str], None]) -> int:
    """Show a run's logs until it ends or Ctrl-C; return 0 if it ended well on all hosts."""
    # A shell makes background jobs ignore SIGINT, on which this asks what to do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    follower = Follower(run, ssh, say)
    try:
        with ending_in_order():
            follower.wait()
    except KeyboardInterrupt:
        follower.close()
        if not wants_stop(say):
            say(
                f"Run {run.id} continues. Watch it: envlab cluster status --follow. Stop it: "
                "envlab cluster kill."
            )
            return INTERRUPTED
        answers = stop_run(run, ssh)
        for host, answer in answers.items():
            say(describe(host, answer))
        run.update()
        return INTERRUPTED if is_over(answers.values()) else 1
    finally:
        follower.close()
    codes = collect_codes(run, ssh)
    run.update()
    for host, code in codes.items():
        if code != 0:
            say(str(code) if isinstance(code, HostError) else f"{host.name}: exit code {code}")
    if fetch:
        fetch_here(run, ssh, say)
    return 0 if all(code == 0 for code in codes.values()) else 1


def wants_stop(say: Callable[[str], None]) -> bool:
    """Ask whether to stop a run everywhere; without a terminal, or at another Ctrl-C, do not."""
    answer = ""
    try:
        while sys.stdin.isatty() and answer not in ("s", "stop", "d", "detach"):
            say("")
            question = "Leave it running (d: detach), or stop it on all hosts (s)? [d/s] "
            answer = input(question).strip().lower() or "d"
    except (EOFError, KeyboardInterrupt):
        return False
    return answer in ("s", "stop")


def collect_codes(run: RunState, ssh: Ssh) -> dict[Host, int | HostError | None]:
    """Return each host's exit code, None if it has none yet, and record it in the run."""

    def ask(host: Host) -> int | None:
        node = run.node_of(host)
        node.exit_code = ssh.run(host, "state.sh", node.folder).exit_code
        return node.exit_code

    codes = on_all(run.hosts, ask)
    if all(isinstance(code, int) for code in codes.values()):
        run.status = "ended"
    return codes


class Follower:
    """Prints new lines of every host's log, prefixed with the host's name."""

    def __init__(self, run: RunState, ssh: Ssh, say: Callable[[str], None]) -> None:
        self._run, self._ssh, self._say = run, ssh, say
        self._width = max(len(host.name) for host in run.hosts)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._streams: dict[Host, subprocess.Popen[bytes]] = {}
        self._ended: dict[Host, float] = {}
        """Hosts where the run has ended, and the time at which that was noticed."""
        self._lost: dict[Host, float] = {}
        """Unreachable hosts, and since when."""
        self._threads = [
            threading.Thread(target=self.follow, args=(host,), daemon=True) for host in run.hosts
        ]

    def wait(self) -> None:
        """Print until the run has ended on every host, or on those that can be reached."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.2)

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()
        for stream in list(self._streams.values()):
            kill_group(stream)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(5.0)

    def _print(self, host: Host, line: str) -> None:
        with self._lock:
            text = _TWICE.sub(r"\1", line)
            self._say(f"{host.name:<{self._width}} | {text}")

    def follow(self, host: Host) -> None:
        """Show the log of a host's processes to its end, or until the follower is closed."""
        seen = 0
        folder = self._run.node_of(host).folder
        while not self._stopped.is_set():
            stream = self._ssh.stream(host, "follow.sh", folder, seen)
            self._streams[host] = stream
            if self._stopped.is_set():  # close() may have run before the stream existed
                kill_group(stream)
            seen += self._copy(host, stream)
            assert stream.stderr is not None
            err = stream.stderr.read().decode(errors="replace")
            code = stream.wait()
            stream.stderr.close()
            if self._stopped.is_set():
                return
            if code == 0:
                self._ended[host] = time.monotonic()
                self._lost.pop(host, None)
                return
            if host not in self._lost:
                self._lost[host] = time.monotonic()
                problem = explain_failure(err, host, self._ssh) if code == 255 else err.strip()
                self._print(host, f"unreachable, trying again: {problem}")
            if self._has_waited_enough(host):
                return
            self._stopped.wait(RETRY_S)

    def _copy(self, host: Host, stream: subprocess.Popen[bytes]) -> int:
        """Print a stream's whole lines; return their number of bytes in the log."""
        assert stream.stdout is not None
        seen, is_log = 0, False
        with stream.stdout as lines:
            for line in lines:
                if not is_log:
                    is_log = line == _MARKER
                    continue
                if host in self._lost:
                    self._print(host, "in sight again")
                    del self._lost[host]
                if line.endswith(b"\n"):
                    seen += len(line)
                self._print(host, line.decode(errors="replace").rstrip("\r\n"))
        return seen

    def _has_waited_enough(self, host: Host) -> bool:
        """Return whether the run ended elsewhere, and this host has been lost for long since."""
        if any(other not in self._ended and other not in self._lost for other in self._run.hosts):
            return False
        since = max([*self._ended.values(), self._lost[host]])
        return time.monotonic() - since > PATIENCE_S
