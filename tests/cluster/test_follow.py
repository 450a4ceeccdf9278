"""Connections that show logs end with their reader."""

from __future__ import annotations

import subprocess

from envlab_cluster.attach import Follower
from envlab_cluster.hosts import Host
from envlab_cluster.ssh import Ssh
from envlab_cluster.state import RunState
from tests.cluster.runs import run_on


class SlowSsh(Ssh):
    """Connects while the follower is being closed."""

    def __init__(self, run: RunState) -> None:
        super().__init__("true {addr}")
        self.follower = Follower(run, self, print)
        self.streams: list[subprocess.Popen[bytes]] = []

    def stream(self, host: Host, script: str, *arguments: object) -> subprocess.Popen[bytes]:
        self.follower.close()
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            ["sleep", "60"], stdout=pipe, stderr=pipe, start_new_session=True
        )
        self.streams.append(process)
        return process


def test_a_connection_that_is_made_while_it_closes_is_ended():
    run = run_on(Host(name="a", address="a"))
    ssh = SlowSsh(run)
    ssh.follower.follow(run.hosts[0])
    (stream,) = ssh.streams
    assert stream.poll() == -9
