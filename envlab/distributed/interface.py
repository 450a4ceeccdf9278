"""The network interface by which this node reaches the others.

Left alone, gloo binds to what the node's own host name resolves to (ProcessGroupGloo of torch
2.13). Debian's /etc/hosts says 127.0.1.1, containers often nothing at all, upon which gloo takes
127.0.0.1: other nodes then connect to themselves, and hang. What the routing table says is right
wherever the nodes can reach each other at all.
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
"""Where gloo looks for the interface to bind to, and where a user can name one."""


class Interface(NamedTuple):
    """A network interface and one of its IPv4 addresses."""

    name: str
    address: str


def interfaces() -> list[Interface]:
    """Return the IPv4 addresses of this network namespace in the kernel's order; none off Linux."""
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
        OSError: If the name does not resolve, or no route leads there.
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
        port: 0: one that is free.
        has_other_nodes: Whether others than processes of this node are to reach it.

    Returns:
        The socket. None where the name does not tell the interface, because it resolves to the
        loopback: Debian's /etc/hosts says 127.0.1.1 of this node's own name, which others know by
        another address.

    Raises:
        OSError: If the name does not resolve, this node does not bear its address, or the port is
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
    """Return the interface that bears an address, with the address that gloo would take.

    That is the interface's first one, whichever it was asked for.
    """
    found = interfaces()
    name = next((one.name for one in found if one.address == address), None)
    if name is None and is_loopback(address):  # all of 127.0.0.0/8 is the loopback interface's
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
    """Have gloo, and NCCL where asked, use an interface, unless the user has named one."""
    environ.setdefault(VARIABLE, interface.name)
    if nccl:
        environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface.name}")  # "=": not as a prefix


def network_space() -> str:
    """Return what tells apart processes that see different networks: other machines, containers.

    The addresses are part of it because virtual machines cloned from one snapshot agree in all the
    rest.
    """
    addresses = sorted(interface.address for interface in interfaces())
    return " ".join((socket.gethostname(), boot_id(), _namespace("net"), *addresses))


def process_space() -> str:
    """Return what tells apart processes whose process ids mean different things."""
    return " ".join((socket.gethostname(), boot_id(), _namespace("pid")))


def boot_id() -> str:
    """Return what names this boot of this machine; empty where the system does not tell."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.is_file() else ""


def _namespace(kind: str) -> str:
    path = f"/proc/self/ns/{kind}"
    return os.readlink(path) if os.path.exists(path) else ""
