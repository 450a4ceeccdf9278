"""Runs that need no hosts."""

from __future__ import annotations

from pathlib import Path

from envlab_cluster.hosts import Host
from envlab_cluster.state import Node, RunState


def run_on(*hosts: Host, path: str | Path = "/p", **changes: str) -> RunState:
    """Return the state of a run with one process on each host, whose files lie in a folder."""
    same = {"path": str(path), "folder": f"{path}/runs/x", "num_processes": 1}
    same |= {"local_address": "127.0.0.1"}
    nodes = [
        Node(host=host, node_rank=number, first_rank=number, **same)
        for number, host in enumerate(hosts)
    ]
    names = ("id", "created_at", "run_id", "ssh_cmd", "endpoint", "snapshot")
    return RunState(command=[], nodes=nodes, **dict.fromkeys(names, "x") | changes)
