"""The network between the nodes: each rank's interface, and a check that the nodes connect.

torch 2.13 waits silently if something is wrong here: gloo bound to an address that others cannot
reach, an interface that is named on one node and missing on another, a firewall that passes only
the rendezvous. The check finds it within a minute and explains it in a sentence.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch.distributed as dist

from envlab.distributed.interface import (
    VARIABLE,
    Interface,
    address_towards,
    interface_named,
    interface_of,
    interfaces,
    is_loopback,
    network_space,
    use_interface,
)
from envlab.distributed.rendezvous import reach
from envlab.errors import LaunchError

logger = logging.getLogger(__name__)

CHECK_S = 10.0
"""How long a node tries to connect to another, which already listens."""
POLL_S = 0.02

_REFUSED = "refused"


class Place(NamedTuple):
    """A rank's location, as the other ranks need it."""

    host: str
    network: str
    address: str
    """The address that it uses towards the meeting point; a loopback on the node that hosts it."""


def settle_network(
    store: dist.Store, rank: int, world_size: int, *, towards: str, nccl: bool, timeout: timedelta
) -> None:
    """Choose this rank's interface, and check that the nodes reach each other by theirs.

    Args:
        store: The store that the ranks of this start share.
        rank: This process's rank.
        world_size: The number of ranks, all of which must call this.
        towards: A host that all ranks reach, or the host of a rank.
        nccl: Whether NCCL is to use the interface as well.
        timeout: How long to wait for another rank.

    Raises:
        LaunchError: If they do not, or the user named an interface that does not exist; also on
            every rank that waits for this one.
        DistError: If the store breaks.
    """
    group = _Group(store, rank, timeout)
    mine = Place(socket.gethostname(), network_space(), address_towards(towards))
    places = [Place(*one) for one in group.exchange("place", mine, range(world_size))]
    named = os.environ.get(VARIABLE) if interfaces() else None
    leaders = lowest_ranks(places)
    try:
        interface = interface_named(named) if named else choose_interface(places, rank)
        if interface is None:  # off Linux, or by IPv6 alone
            logger.debug("gloo chooses the interface that reaches the other ranks.")
        else:
            use_interface(interface, os.environ, nccl=nccl and len(leaders) > 1)
        if len(leaders) > 1 and rank in leaders:
            _check_nodes(group, leaders, interface, address_for_others(places, rank))
    except LaunchError as problem:
        if not store.check([_REFUSED]):
            store.set(_REFUSED, f"Rank {rank} on {mine.host} refused to start: {problem}")
        raise


def lowest_ranks(places: list[Place]) -> list[int]:
    """Return the lowest rank in each network, lowest first; each represents its node."""
    seen: dict[str, int] = {}
    for rank, place in enumerate(places):
        seen.setdefault(place.network, rank)
    return list(seen.values())


def choose_interface(places: list[Place], rank: int) -> Interface | None:
    """Return the interface that reaches the other nodes, the loopback if there are none.

    If the meeting point is on this node, the route there says nothing about the route to other
    nodes, and the route to the first rank elsewhere decides.
    """
    mine = places[rank]
    if all(place.network == mine.network for place in places):
        return interface_of("127.0.0.1")
    address = address_for_others(places, rank)
    return None if is_loopback(address) else interface_of(address)


def address_for_others(places: list[Place], rank: int) -> str:
    """Return the address by which this node most likely reaches the others."""
    mine = places[rank]
    elsewhere = [place.address for place in places if place.network != mine.network]
    reachable = [address for address in elsewhere if not is_loopback(address)]
    if not is_loopback(mine.address) or not reachable:
        return mine.address
    return address_towards(reachable[0])


class _Group(NamedTuple):
    """The ranks that share a store, as seen by one of them."""

    store: dist.Store
    rank: int
    timeout: timedelta

    def exchange(self, key: str, mine: Any, ranks: Sequence[int]) -> list[Any]:
        """Return the JSON value that each of some ranks gave, this one included.

        Raises:
            LaunchError: If a rank refused to start, with its reason.
            DistError: If the store breaks, or a rank gives nothing within the timeout.
        """
        self.store.set(f"{key}/{self.rank}", json.dumps(mine))
        end = time.monotonic() + self.timeout.total_seconds()
        for other in ranks:
            while not self.store.check([f"{key}/{other}"]):
                if self.store.check([_REFUSED]):
                    raise LaunchError(self.store.get(_REFUSED).decode(), same_on_all_ranks=False)
                if time.monotonic() > end:
                    raise dist.DistStoreError(f"no word from rank {other} on its {key}")
                time.sleep(POLL_S)
        return [json.loads(self.store.get(f"{key}/{other}")) for other in ranks]


def _check_nodes(
    group: _Group, leaders: list[int], interface: Interface | None, address: str
) -> None:
    """Connect each node to every other one, as gloo will, at a port that the kernel chooses.

    Args:
        group: The ranks.
        leaders: The ranks that represent their nodes; this is one.
        interface: The interface set for gloo, None if gloo chooses.
        address: The address that then reaches the others, possibly an IPv6 one.

    Raises:
        LaunchError: Naming both nodes, the addresses, and what may be in the way.
    """
    host = socket.gethostname()
    name, where = interface or ("unknown", host if is_loopback(address) else address)
    with _listen(interface, len(leaders)) as listener:
        mine = (host, where, listener.getsockname()[1], name)
        nodes = dict(zip(leaders, group.exchange("node", mine, leaders), strict=True))
        for other, (node, where, port, theirs) in nodes.items():
            problem = None if other == group.rank else reach(where, port, CHECK_S)
            if problem is not None:
                raise LaunchError(
                    f"Rank {group.rank} on {host} (interface {mine[3]}, {mine[1]}) cannot connect "
                    f"to rank {other} on {node} (interface {theirs}) at {where}:{port} within "
                    f"{CHECK_S:.0f} s ({problem}), though both reach the rendezvous. Let the "
                    "nodes' firewalls pass all TCP ports between them, or name on each node the "
                    f"interface that reaches the others: {VARIABLE}=<name>.",
                    same_on_all_ranks=False,
                )
        group.exchange("reached", True, leaders)  # listen until all have connected
    if group.rank == 0:
        told = ", ".join(f"{node} by {name} ({where})" for node, where, _, name in nodes.values())
        logger.info("%d nodes meet: %s.", len(nodes), told)


def _listen(interface: Interface | None, backlog: int) -> socket.socket:
    """Listen at an interface's address; without one at all addresses, IPv6 too if available."""
    if interface is not None:
        return socket.create_server((interface.address, 0), backlog=backlog)
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), backlog=backlog)
    return socket.create_server(
        ("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
    )
