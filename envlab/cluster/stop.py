"""Ending a run on every host, and making sure that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envlab.cluster.hosts import Host
from envlab.cluster.ssh import HostError, Ssh, on_all
from envlab.cluster.state import RunState

GRACE_S = 40
"""Between TERM and KILL: ranks finish an iteration and save, and torchrun itself waits 30 s."""


@dataclass(frozen=True)
class Ended:
    """How a run ended on a host."""

    how: str
    """``gone`` already, ``ended`` by TERM, ``killed``."""
    left: tuple[int, ...]
    """Processes that even KILL did not end."""
    exit_code: int | None


def stop_run(run: RunState, ssh: Ssh, grace_s: int = GRACE_S) -> dict[Host, Ended | HostError]:
    """End a run everywhere at the same time: TERM, then KILL; note the exit codes.

    Args:
        run: The run.
        ssh: How its hosts are reached.
        grace_s: Seconds between TERM and KILL.

    Returns:
        How it ended on each host, or why that cannot be told.
    """

    def end(host: Host) -> Ended:
        node = run.node_of(host)
        words = [node.folder, run.token(node), grace_s]
        answer = ssh.run(host, "end.sh", *words, timeout_s=grace_s + 30.0, is_expendable=True)
        values = answer.values
        left = tuple(int(pid) for pid in values["left"].split())
        return Ended(values["how"], left, int(values["code"]) if values["code"] else None)

    answers = on_all(run.hosts, end)
    for host, answer in answers.items():
        if isinstance(answer, Ended) and answer.exit_code is not None:
            run.node_of(host).exit_code = answer.exit_code
    if is_over(answers.values()):
        run.status = "ended"
    return answers


def is_over(answers: Iterable[Ended | HostError]) -> bool:
    """Return whether it is certain that nothing is left."""
    return all(isinstance(answer, Ended) and not answer.left for answer in answers)


def describe(host: Host, answer: Ended | HostError) -> str:
    """Return a line on how a run ended on a host."""
    if isinstance(answer, HostError):
        return str(answer)
    if answer.left:
        pids = ", ".join(map(str, answer.left))
        return f"{host.name}: processes {pids} are still there, in spite of KILL"
    how = {
        "gone": "nothing was running",
        "ended": "ended, nothing is left",
        "killed": "did not end in time and was killed, nothing is left",
    }[answer.how]
    code = "" if answer.exit_code is None else f" (exit code {answer.exit_code})"
    return f"{host.name}: {how}{code}"
