"""Starting a run's parts on all hosts at the same time; if one does not start, none is left."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

from envlab.cluster.hosts import Host
from envlab.cluster.interrupts import uninterrupted
from envlab.cluster.ssh import HostError, Ssh, on_all, results_of
from envlab.cluster.state import RunState
from envlab.cluster.stop import describe, is_over, stop_run
from envlab.errors import LaunchError


def start_all(run: RunState, ssh: Ssh, texts: Mapping[Host, str], *, timeout_s: int) -> None:
    """Start every node's script, and wait until torchrun has started its processes on all nodes.

    Args:
        run: The run; what its processes are is noted in it.
        ssh: How its hosts are reached.
        texts: Each node's script.
        timeout_s: How long the nodes may take to meet, in seconds.

    Raises:
        EnvlabError: If one does not start; the others have been stopped then.
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
            f"{str(error) or 'Interrupted.'}\nNot all of it could be stopped; later, run envlab "
            f"cluster kill --run {run.id}.\n{rest}"
        ) from error


def _await_all(run: RunState, ssh: Ssh, timeout_s: int) -> None:
    """Wait until all nodes have started; stop waiting as soon as one cannot.

    Raises:
        EnvlabError: Naming the host, and what it printed last.
    """

    def wait(host: Host) -> None:
        folder = run.node_of(host).folder
        answer = ssh.run(host, "await.sh", folder, timeout_s, timeout_s=timeout_s + 20.0)
        state = answer.values.get("state")
        if state == "started":
            return
        log = [
            line
            for line in answer.text.splitlines()
            if line.partition("=")[0] not in ("state", "code")
        ]
        last = "\n".join(f"  {line}" for line in log) or "  (nothing)"
        if state == "waiting":
            raise HostError(
                host,
                f"its processes have not met the others within {timeout_s} s; its log ends with:\n"
                f"{last}",
            )
        code = answer.values.get("code") or "unknown"
        raise HostError(
            host, f"its part ended with code {code} at once; its log ends with:\n{last}"
        )

    pool = ThreadPoolExecutor(len(run.nodes))
    try:
        for done in as_completed([pool.submit(wait, host) for host in run.hosts]):
            done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
