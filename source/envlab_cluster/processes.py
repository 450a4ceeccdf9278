"""Starting a run's part on every host, and ending it there completely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from envlab.errors import LaunchError
from envlab.interrupts import uninterrupted
from envlab_cluster.hosts import Host
from envlab_cluster.ssh import HostError, Ssh, on_all, results_of
from envlab_cluster.state import RunState

GRACE_S = 40
"""Seconds from TERM to KILL: ranks finish an iteration and save, and torchrun waits 30 s."""
_ENDS = {
    "gone": "was not running",
    "ended": "ended, no process is left",
    "killed": "did not end in time and was killed, no process is left",
}


def start_all(run: RunState, ssh: Ssh, texts: Mapping[Host, str], *, timeout_s: int) -> None:
    """Start every node's script, and wait until torchrun has started its processes on all nodes.

    Args:
        run: The run; its processes are recorded in it.
        ssh: The connection to its hosts.
        texts: Each node's script.
        timeout_s: Longest time for the nodes to meet, in seconds.

    Raises:
        EnvlabError: If a node does not start; the others are then stopped.
    """

    def begin(host: Host) -> None:
        node = run.node_of(host)
        words = [node.folder, run.token(node), texts[host], "", ""]
        values = ssh.run(host, "start.sh", *words).values
        node.pid, node.ticks = int(values["pid"]), values["ticks"]

    try:
        results_of(on_all(run.hosts, begin))
        run.save()
        _await_all(run, ssh, timeout_s)
        run.status = "running"
        run.save()
    except BaseException as error:
        with uninterrupted():
            answers = stop_run(run, ssh, grace_s=5)
        if is_over(answers.values()):
            run.forget()
            raise
        run.save()
        rest = "\n".join(describe(*answer) for answer in answers.items())
        raise LaunchError(
            f"{str(error) or 'Interrupted.'}\nSome of it could not be stopped; later, run envlab "
            f"cluster kill --run {run.id}.\n{rest}"
        ) from error


def _await_all(run: RunState, ssh: Ssh, timeout_s: int) -> None:
    """Wait until all nodes have started; stop waiting as soon as one cannot.

    Raises:
        EnvlabError: With the host, and its last output.
    """

    def wait(host: Host) -> None:
        folder = run.node_of(host).folder
        answer = ssh.run(host, "await.sh", folder, timeout_s, timeout_s=timeout_s + 20.0)
        if answer.values["state"] == "started":
            return
        if answer.values["state"] == "waiting":
            problem = f"its processes have not met the others within {timeout_s} s"
        else:
            problem = f"its part ended with code {answer.values['code'] or 'unknown'} at once"
        raise HostError(
            host, f"{problem}; its log ends with:\n{answer.indented_log or '  (nothing)'}"
        )

    # Not on_all, which waits for every host: a failure must be reported immediately.
    pool = ThreadPoolExecutor(len(run.nodes))
    try:
        for done in as_completed([pool.submit(wait, host) for host in run.hosts]):
            done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Ended:
    """How a run ended on a host."""

    how: str
    """``gone`` already, ``ended`` by TERM, ``killed``."""
    left: list[str]
    """Processes that even KILL did not end."""
    exit_code: int | None


def stop_run(run: RunState, ssh: Ssh, grace_s: int = GRACE_S) -> dict[Host, Ended | HostError]:
    """End a run everywhere at the same time: TERM, then KILL; record the exit codes.

    Args:
        run: The run.
        ssh: The connection to its hosts.
        grace_s: Seconds between TERM and KILL.

    Returns:
        How it ended on each host, or the reason why that is unknown.
    """

    def end(host: Host) -> Ended:
        node = run.node_of(host)
        words = [node.folder, run.token(node), grace_s]
        answer = ssh.run(host, "end.sh", *words, timeout_s=grace_s + 30.0, is_expendable=True)
        if answer.exit_code is not None:
            node.exit_code = answer.exit_code
        return Ended(answer.values["how"], answer.values["left"].split(), answer.exit_code)

    answers = on_all(run.hosts, end)
    if is_over(answers.values()):
        run.status = "ended"
    return answers


def is_over(answers: Iterable[Ended | HostError]) -> bool:
    """Return whether it is certain that no process is left."""
    return all(isinstance(answer, Ended) and not answer.left for answer in answers)


def describe(host: Host, answer: Ended | HostError) -> str:
    """Return a line on how a run ended on a host."""
    if isinstance(answer, HostError):
        return str(answer)
    if answer.left:
        pids = ", ".join(answer.left)
        return f"{host.name}: processes {pids} are still running, in spite of KILL"
    code = "" if answer.exit_code is None else f" (exit code {answer.exit_code})"
    return f"{host.name}: {_ENDS[answer.how]}{code}"
