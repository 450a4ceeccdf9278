"""Checks of all hosts before anything starts on any."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from envlab.distributed.interface import is_loopback
from envlab.errors import LaunchError
from envlab.libraries import packages_alike
from envlab_cluster.hosts import Host
from envlab_cluster.ssh import HostError, Ssh, on_all, remote_text, results_of

MIN_FREE_MB = 500


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A host's report on itself."""

    path: str
    activate: str
    hostname: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    num_gpus: int = 0
    port: int | None = None
    client: str = ""
    """This machine's address as seen from the host; empty if unknown to ssh."""
    server: str = ""
    """The address by which it was reached."""

    @classmethod
    def of_unasked(cls, host: Host) -> Facts:
        """Return the facts of a host that are known in advance."""
        activate = host.env_activate_path or f"{host.path}/venv/bin/activate"
        return cls(path=host.path, activate=activate)

    def __str__(self) -> str:
        gpus = f"{self.num_gpus} GPUs" if self.num_gpus else "no GPU"
        torch = self.packages.get("torch", "none")
        return f"{self.hostname}, Python {self.python}, torch {torch}, {gpus}"


@dataclass(frozen=True)
class Meeting:
    """Where the nodes meet, and each one's address for that connection."""

    host: Host
    address: str
    port: int
    local: Mapping[Host, str]


def probe(
    hosts: list[Host],
    ssh: Ssh,
    run: str,
    *,
    port: int | None,
    port_host: Host,
    min_free_mb: int,
    beside: bool,
) -> dict[Host, Facts | HostError]:
    """Check all hosts, and claim a folder for the run on each; return facts, or problems.

    Args:
        hosts: The hosts.
        ssh: The connection to them.
        run: The launch's id.
        port: The port that must be free on ``port_host``; None: any.
        port_host: Where the nodes will meet.
        min_free_mb: Free space that each path must have, in MB.
        beside: Whether other runs may be active on the hosts.
    """
    python = remote_text("probe.py")

    def look(host: Host) -> Facts:
        wanted = port if port is not None and host == port_host else ""
        claim = [host.path, host.env_activate_path, run, min_free_mb, wanted, int(beside)]
        values = ssh.run(host, "probe.sh", *claim, python, *packages_alike()).values
        facts = json.loads(values["facts"])
        if facts["port"] is None:
            raise HostError(
                host,
                f"port {port}, for the rendezvous, is in use there ({facts.pop('problem')}): name "
                "another by --distributed_ip_and_port.",
            )
        client, _, server, _ = (*values["connection"].split(), "", "", "", "")[:4]
        return Facts(
            path=values["path"],
            activate=values["activate"],
            num_gpus=int(values["gpus"] or 0),
            client=client,
            server=server,
            **facts,
        )

    return on_all(hosts, look)


def check_versions(facts: Mapping[Host, Facts]) -> None:
    """Refuse hosts whose Python or packages differ, or that have no torch.

    Raises:
        LaunchError: Naming hosts and versions; hosts are compared with the majority's versions.
    """
    for host, one in facts.items():
        if "torch" not in one.packages:
            raise HostError(
                host,
                f"the environment {one.activate} has no torch: set it up by envlab cluster setup, "
                "or name another by --env_activate_path.",
            )
    versions = {
        host: {
            "python": ".".join(one.python.split(".")[:2]),
            **{name: one.packages.get(name, "none") for name in packages_alike()},
        }
        for host, one in facts.items()
    }
    usual = {
        name: Counter(version[name] for version in versions.values()).most_common(1)[0][0]
        for name in ("python", *packages_alike())
    }
    lines = []
    for host, own in versions.items():
        odd = [name for name in usual if own[name] != usual[name]]
        if odd:
            here, others = (", ".join(f"{name} {of[name]}" for name in odd) for of in (own, usual))
            lines.append(f"host {host.name} has {here} where others have {others}")
    if lines:
        raise LaunchError(
            f"Python and packages differ: {'; '.join(lines)}. Ranks would compute differently: set "
            "all hosts up in the same way by envlab cluster setup, or give "
            "--allow_different_versions."
        )


def meet(
    facts: Mapping[Host, Facts], ssh: Ssh, host: Host, address: str | None, port: int | None
) -> Meeting:
    """Find where the nodes meet, and check that each of them can reach it.

    Args:
        facts: What the hosts reported.
        ssh: The connection to them.
        host: Where the nodes meet.
        address: Its address for the others; None: found.
        port: The port; None: a port that was found free.

    Raises:
        EnvlabError: With a line for each host that cannot.
    """
    found = port if port is not None else facts[host].port
    assert found is not None, "probe refuses a host without a free port"
    where = address or address_for_others(facts, host)
    others = len(facts) - 1
    if not others:
        return Meeting(host, where, found, {host: where})
    python = remote_text("meet.py")

    def connect(one: Host) -> str:
        count = others if one == host else 0
        words = [facts[one].activate, where, found, count, python]
        return ssh.run(one, "meet.sh", *words, timeout_s=60.0).values["local"]

    return Meeting(host, where, found, results_of(on_all(facts, connect)))


def address_for_others(facts: Mapping[Host, Facts], host: Host) -> str:
    """Return the address of a host that the others are most likely to reach.

    It is the one by which it was reached from here. If that is a loopback, the host is this one,
    and the address is the source of its connections to the others, if possible by IPv4.
    """
    if len(facts) == 1:
        return "127.0.0.1"
    server = facts[host].server
    if server and not is_loopback(server):
        return server
    seen = [one.client for other, one in facts.items() if other != host and one.client]
    outer = sorted((one for one in seen if not is_loopback(one)), key=lambda one: ":" in one)
    return next(iter(outer), server or "127.0.0.1")
