"""Interfaces are chosen by the places of all ranks; nodes that cannot meet report why."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from envlab.distributed import network
from envlab.distributed.interface import Interface
from envlab.distributed.network import Place, choose_interface, lowest_ranks, settle_network
from envlab.errors import LaunchError
from tests.agents import dead_port

HEAD = Place("a", "net a", "127.0.0.1")  # has the meeting point
SECOND = Place("b", "net b", "10.0.0.2")
THIRD = Place("c", "net c", "10.1.0.3")


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts whose routes are queried; each address has its own interface."""
    asked: list[str] = []
    monkeypatch.setattr(network, "interface_of", lambda address: Interface("if", address))
    monkeypatch.setattr(network, "address_towards", lambda host: asked.append(host) or "10.0.0.1")
    return asked


def test_the_interface_is_the_way_to_the_meeting_point(routes: list[str]):
    places = [HEAD, SECOND, SECOND, THIRD]
    chosen = [choose_interface(places, rank) for rank in range(4)]
    wanted = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.1.0.3"]
    assert [one.address for one in chosen if one] == wanted
    assert routes == ["10.0.0.2"]  # asked by the head, as its route to itself reveals nothing
    assert lowest_ranks(places) == [0, 1, 3]


def test_ranks_of_one_node_use_the_loopback(routes: list[str]):
    chosen = choose_interface([SECOND, SECOND], 1)
    assert chosen is not None
    assert chosen.address == "127.0.0.1"
    assert routes == []


def settle(store: dist.Store, timeout_s: float = 5.0) -> None:
    """Settle the network of rank 0 here and a rank 1, which has written to the store already."""
    timeout = timedelta(seconds=timeout_s)
    settle_network(store, 0, 2, towards="127.0.0.1", nccl=False, timeout=timeout)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dist.Store:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(network, "CHECK_S", 0.3)
    made = dist.HashStore()
    made.set("place/1", json.dumps(Place("b", "net b", "127.0.0.1")))
    return made


def test_a_firewall_between_nodes_is_named_with_both_ends(store: dist.Store):
    with dead_port() as port:
        store.set("node/1", json.dumps(("b", "127.0.0.1", port, "eth7")))
        expected = (
            r"Rank 0 on .* \(interface lo, 127.0.0.1\) cannot connect to rank 1 on b "
            rf"\(interface eth7\) at 127.0.0.1:{port} .*firewalls pass all TCP ports"
        )
        with pytest.raises(LaunchError, match=expected):
            settle(store)
    assert "cannot connect" in store.get("refused").decode()  # for the waiting ranks


def test_a_rank_that_refuses_is_heard_by_those_that_wait(store: dist.Store):
    store.set("refused", "Rank 1 on b refused to start: no such interface.")
    with pytest.raises(LaunchError, match=r"^Rank 1 on b refused to start: no such interface\.$"):
        settle(store)


def test_a_rank_that_says_nothing_is_named(store: dist.Store):
    with pytest.raises(dist.DistStoreError, match="no word from rank 1 on its node"):
        settle(store, timeout_s=0.2)


def test_nodes_that_have_ipv6_alone_reach_each_other(monkeypatch: pytest.MonkeyPatch):
    """By address, as their names need not resolve, and at a port that listens on IPv6."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this system has no IPv6")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(network, "CHECK_S", 2.0)
    monkeypatch.setattr(network, "interface_of", lambda address: None)
    monkeypatch.setattr(network, "is_loopback", lambda address: False)  # here it is the route
    monkeypatch.setattr(network, "network_space", lambda: threading.current_thread().name)
    store = dist.HashStore()

    def settle_rank(rank: int) -> None:
        timeout = timedelta(seconds=5.0)
        settle_network(store, rank, 2, towards="::1", nccl=False, timeout=timeout)

    with ThreadPoolExecutor(max_workers=2) as ranks:
        list(ranks.map(settle_rank, range(2)))
    assert [json.loads(store.get(f"node/{rank}"))[1] for rank in range(2)] == ["::1", "::1"]
