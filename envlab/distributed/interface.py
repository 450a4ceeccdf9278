"""The network interface by which this node reaches the others.

By default, gloo binds to the address of the node's own host name (ProcessGroupGloo of torch 2.13).
That is 127.0.1.1 in Debian's /etc/hosts, and often missing in containers, where gloo then takes
127.0.0.1. Other nodes then connect to themselves, and hang. The routing table is right wherever
the nodes can reach each other at all.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import NamedTuple

import psutil

from envlab.errors import LaunchError

VARIABLE = "GLOO_SOCKET_IFNAME"
"""Variable in which gloo looks for the interface to bind to, and a user can name one."""


class Interface(NamedTuple):
    """A network interface and an IPv4 address of it."""

    name: str
    address: str


def interfaces() -> list[Interface]:
    """Return this network namespace's IPv4 addresses in the kernel's order; none off Linux."""
    if not sys.platform.startswith("linux"):
        return []
    return [
        Interface(name, entry.address)
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    ]


def address_towards(host: str) -> str:
    """Return the address that this node uses towards ``host``, without sending anything.

    It is an IPv4 address unless the host has none.

    Raises:
        OSError: If the name does not resolve, or no route leads to it.
    """
    found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, target = min(found, key=lambda one: one[0] != socket.AF_INET)
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


def listen(host: str, port: int, *, has_other_nodes: bool = False) -> socket.socket | None:
    """Listen on the interface that others reach as ``host``, and on no other.

    Args:
        host: A name or address of this node.
        port: The port; 0: any free one.
        has_other_nodes: Whether other nodes must also reach it.

    Returns:
        The socket. None if the name resolves to the loopback, which does not identify the
        interface: Debian's /etc/hosts gives 127.0.1.1 for this node's own name, which other nodes
        resolve to another address.

    Raises:
        OSError: If the name does not resolve, this node does not have its address, or the port is
            taken.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, *_, target = min(found, key=lambda one: one[0] != socket.AF_INET)
    means_loopback = host in ("localhost", target[0]) and not has_other_nodes
    if is_loopback(str(target[0])) and not means_loopback:
        return None
    return socket.create_server(target, family=family)


def is_loopback(address: str) -> bool:
    """Return whether an address is one at which every node reaches itself."""
    return ipaddress.ip_address(address).is_loopback


def interface_of(address: str) -> Interface | None:
    """Return the interface that has an address, with the address that gloo would take.

    That is the interface's first address, even if ``address`` is another.
    """
    found = interfaces()
    name = next((one.name for one in found if one.address == address), None)
    if name is None and is_loopback(address):  # the loopback interface has all of 127.0.0.0/8
        name = next((one.name for one in found if is_loopback(one.address)), None)
    return next((one for one in found if one.name == name), None)


def interface_named(names: str) -> Interface:
    """Return the first of a comma-separated list of interfaces, as a user gives it to gloo.

    Raises:
        LaunchError: If this node has no such interface with an IPv4 address.
    """
    name = names.split(",")[0].strip()
    found = interfaces()
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(dict.fromkeys(f"{one.name} ({one.address})" for one in found)) or "none"
    raise LaunchError(
        f"{VARIABLE} is {names!r}, but {socket.gethostname()} has no interface {name!r} with an "
        f"IPv4 address; it has: {known}. Name one of these, or unset {VARIABLE} and let envlab "
        "choose the one that reaches the other nodes.",
        same_on_all_ranks=False,
    )


def use_interface(interface: Interface, environ: MutableMapping[str, str], *, nccl: bool) -> None:
    """Make gloo, and on request NCCL, use an interface, unless the user has named one."""
    environ.setdefault(VARIABLE, interface.name)
    if nccl:
        environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface.name}")  # "=": not as a prefix


def network_space() -> str:
    """Return a name of the network that this process sees; machines and containers differ in it.

    The addresses are part of it because virtual machines cloned from one snapshot agree in
    everything else.
    """
    addresses = sorted(interface.address for interface in interfaces())
    return " ".join((socket.gethostname(), boot_id(), _namespace("net"), *addresses))


def process_space() -> str:
    """Return a name of the space in which this process's id is valid."""
    return " ".join((socket.gethostname(), boot_id(), _namespace("pid")))


def boot_id() -> str:
    """Return the id of this machine's current boot; empty if the system has none."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.is_file() else ""


def _namespace(kind: str) -> str:
    path = f"/proc/self/ns/{kind}"
    return os.readlink(path) if os.path.exists(path) else ""
