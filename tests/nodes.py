"""Several nodes on one machine: network namespaces with their own addresses and host names.

Two nodes are joined by a veth pair, or, with a delay, by :mod:`tests.wire`. A node has its own
interfaces, its own /etc/hosts and its own host name, and nothing beyond the other nodes; processes
and files are the machine's. It needs root, and the tool ``ip``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.launcher import Launch

PREFIX = "envlab-test-"
SUBNET = "10.213.7"
HOSTS = Path("/etc/netns")
"""Folder of namespaces' own files of /etc, read by ``ip netns exec``."""

_ENTER = 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"'


def why_not(*, delayed: bool = False) -> str | None:
    """Return why nodes cannot be made here, with a delay if asked; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if delayed and not Path("/dev/net/tun").exists():
        return "a delay between nodes needs /dev/net/tun"
    name = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces are not allowed here ({made.stderr.strip()})"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@dataclass(frozen=True)
class Node:
    """A namespace, and its place in the network."""

    namespace: str
    host: str
    address: str
    interface: str

    def command(self, words: Sequence[str | Path]) -> list[str | Path]:
        """Return a command that runs another on this node."""
        enter = ["ip", "netns", "exec", self.namespace, "unshare", "--uts"]
        return [*enter, "sh", "-c", _ENTER, self.host, *words]

    def launch(self, words: Sequence[str | Path], folder: Path, **variables: str) -> Launch:
        """Start a command on this node, in a separate folder."""
        folder.mkdir(exist_ok=True)
        settings = [f"{name}={value}" for name, value in variables.items()]
        return Launch(self.command(["env", *settings, *words]), folder)

    def ip(self, *words: str) -> None:
        """Change this node's network, by ``ip``."""
        ip("-n", self.namespace, *words)

    def num_sent(self) -> int:
        """Return the bytes that it has sent to others so far."""
        words = ["ip", "-n", self.namespace, "-s", "-j", "link", "show", "dev", self.interface]
        shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return int(json.loads(shown)[0]["stats64"]["tx"]["bytes"])

    def write_hosts(self, text: str) -> None:
        """Set this node's /etc/hosts, for commands that start from now on."""
        (HOSTS / self.namespace / "hosts").write_text(text)


class Nodes:
    """Two nodes ``node0`` and ``node1`` at 10.213.7.1 and .2; ``close`` removes them.

    Their interfaces have different names, as on real clusters. Neither resolves the other's host
    name, and each resolves its own to 127.0.1.1, as Debian's installer sets it up.
    """

    def __init__(
        self, delay_s: float | None = None, mtu: int = 1500, *, rate: float = math.inf
    ) -> None:
        """Make them.

        Args:
            delay_s: Time of a packet from node to node, in seconds, so half a round trip; None: no
                added delay.
            mtu: Largest packet in bytes.
            rate: Most bytes a second that a node sends, with a delay.
        """
        remove_leftovers(PREFIX)
        token = f"{PREFIX}{os.getpid()}-{uuid.uuid4().hex[:4]}"
        self.nodes = [
            Node(f"{token}-{number}", f"node{number}", f"{SUBNET}.{number + 1}", f"port{number}")
            for number in range(2)
        ]
        self._wire: subprocess.Popen[str] | None = None
        try:
            self._build(delay_s, mtu, rate)
        except BaseException:
            self.close()
            raise

    def _build(self, delay_s: float | None, mtu: int, rate: float) -> None:
        first, second = self.nodes
        for node in self.nodes:
            ip("netns", "add", node.namespace)
            (HOSTS / node.namespace).mkdir(parents=True, exist_ok=True)
            node.write_hosts(f"127.0.0.1 localhost\n127.0.1.1 {node.host}\n")
            node.ip("link", "set", "lo", "up")
        if delay_s is None:
            first.ip(
                *("link", "add", first.interface, "type", "veth"),
                *("peer", "name", second.interface, "netns", second.namespace),
            )
        else:
            self._lay_wire(delay_s, rate)
        for node in self.nodes:
            node.ip("address", "add", f"{node.address}/24", "dev", node.interface)
            node.ip("link", "set", node.interface, "mtu", str(mtu), "txqueuelen", "10000", "up")

    def _lay_wire(self, delay_s: float, rate: float) -> None:
        names = {f"et{uuid.uuid4().hex[:8]}": node for node in self.nodes}
        ends = [f"{name}={node.address}" for name, node in names.items()]
        wire = Path(__file__).with_name("wire.py")
        self._wire = subprocess.Popen(
            [sys.executable, wire, str(delay_s), str(rate), *ends],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._wire.stdout is not None
        assert self._wire.stdout.readline() == "ready\n", "the wire did not come up; see above"
        for name, node in names.items():
            ip("link", "set", name, "netns", node.namespace, "name", node.interface)

    def close(self) -> None:
        """Remove them, with their interfaces and files. Their processes must have ended."""
        if self._wire is not None:
            self._wire.kill()
            self._wire.communicate(timeout=10)
        for node in self.nodes:
            remove(node.namespace)


def ip(*words: str) -> None:
    """Run ``ip``."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def remove(namespace: str) -> None:
    """Remove a namespace, with its files of /etc."""
    if Path("/run/netns", namespace).exists():
        ip("netns", "del", namespace)
    shutil.rmtree(HOSTS / namespace, ignore_errors=True)


def remove_leftovers(prefix: str) -> None:
    """Remove the namespaces ``<prefix><pid>-...`` of test processes that were killed."""
    for path in Path("/run/netns").glob(f"{prefix}*"):
        pid = path.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(AssertionError):  # another test process removes it too
                remove(path.name)
