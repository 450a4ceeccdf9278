"""Old snapshots: removed from the hosts when no run refers to them any more."""

from __future__ import annotations

from collections.abc import Callable

from envlab.cluster.hosts import Host
from envlab.cluster.ssh import HostError, Ssh, on_all
from envlab.cluster.state import RunState

KEEP_SNAPSHOTS = 5


def prune_snapshots(run: RunState, ssh: Ssh, keep: int, say: Callable[[str], None]) -> None:
    """Remove old snapshots from a run's hosts, and say in one line which.

    What stays is the newest, and what anything refers to: the folder of a run, whether it lives or
    not; a process; the environment that ``setup`` made. Nothing is removed from a host where
    another launch is being started, and a host that fails is only told of.

    Args:
        run: The run, which has started.
        ssh: How its hosts are reached.
        keep: How many of the newest stay; 0: all.
        say: Prints a line.
    """
    if keep == 0:
        return

    def remove(host: Host) -> list[str]:
        answer = ssh.run(host, "prune.sh", run.node_of(host).path, keep, is_expendable=True)
        return [value for key, value in answer.pairs if key == "removed"]

    gone = []
    for host, answer in on_all(run.hosts, remove).items():
        if isinstance(answer, HostError):
            say(f"Old snapshots stay. {answer}")
        elif answer:
            gone.append(f"{host.name}: {', '.join(answer)}")
    if gone:
        say(f"Removed old snapshots that no run refers to. {'; '.join(gone)}")
