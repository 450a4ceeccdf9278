"""Being attached to a run: its logs, Ctrl-C, its end, and its run directory."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from envlab.cluster.fetch import fetch_here
from envlab.cluster.follow import Follower, collect_codes
from envlab.cluster.interrupts import INTERRUPTED, ending_in_order
from envlab.cluster.ssh import HostError, Ssh
from envlab.cluster.state import RunState
from envlab.cluster.stop import describe, is_over, stop_run


def attend(run: RunState, ssh: Ssh, *, fetch: bool, say: Callable[[str], None]) -> int:
    """Show a run's logs until it ends or Ctrl-C; return 0 if it ended well on all hosts."""
    # A shell has what it starts in the background ignore SIGINT, which asks here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    follower = Follower(run, ssh, say)
    try:
        with ending_in_order():
            follower.wait()
    except KeyboardInterrupt:
        follower.close()
        if not wants_stop(say):
            say(
                f"Run {run.id} goes on. Watch it: envlab cluster status --follow. Stop it: envlab "
                "cluster kill."
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
            problem = code if isinstance(code, HostError) else f"exit code {code}"
            say(str(problem) if isinstance(code, HostError) else f"{host.name}: {problem}")
    if fetch:
        fetch_here(run, ssh, say)
    return 0 if all(code == 0 for code in codes.values()) else 1


def wants_stop(say: Callable[[str], None]) -> bool:
    """Ask whether to stop a run everywhere; without a terminal, or at another Ctrl-C, do not."""
    if not sys.stdin.isatty():
        return False
    try:
        while True:
            say("")
            answer = input("Leave it running (d: detach), or stop it on all hosts (s)? [d/s] ")
            if answer.strip().lower() in ("s", "stop"):
                return True
            if answer.strip().lower() in ("d", "detach", ""):
                return False
    except (EOFError, KeyboardInterrupt):
        return False
