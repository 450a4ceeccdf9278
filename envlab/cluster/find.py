"""Runs that no state file here tells of: somebody else's, or one whose file is lost."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.cluster.hosts import Host
from envlab.cluster.ssh import Answer, Ssh, on_all, results_of
from envlab.cluster.state import Node, RunState


def find_living(hosts: Sequence[Host], ssh: Ssh) -> list[RunState]:
    """Return what runs on hosts, as far as it must be known to end it; the newest first.

    Raises:
        EnvlabError: If a host does not answer.
    """

    def look(host: Host) -> Answer:
        return ssh.run(host, "find.sh", host.path, is_expendable=True)

    runs: dict[str, RunState] = {}
    for host, answer in results_of(on_all(hosts, look)).items():
        path = answer.values["path"]
        for token in [value for key, value in answer.pairs if key == "found"]:
            run_id, _, rank = token.rpartition("/")
            run = runs.setdefault(run_id, _unknown(run_id, ssh))
            run.nodes.append(
                Node(
                    host=host,
                    node_rank=int(rank),
                    first_rank=0,
                    path=path,
                    folder=f"{path}/runs/{run_id}",
                    num_processes=1,
                    local_address="",
                )
            )
    return [runs[run_id] for run_id in sorted(runs, reverse=True)]


def _unknown(run_id: str, ssh: Ssh) -> RunState:
    return RunState(
        id=run_id,
        created_at="",
        command=["found on its hosts"],
        run_id=run_id,
        ssh_cmd=ssh.command,
        endpoint="",
        snapshot="",
        status="running",
    )
