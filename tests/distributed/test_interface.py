"""Which interface reaches the other nodes, and how nodes are distinguished."""

from __future__ import annotations

import contextlib
import socket

import pytest

from envlab.distributed import interface as module
from envlab.distributed.interface import (
    Interface,
    address_towards,
    interface_named,
    interface_of,
    interfaces,
    listen,
    network_space,
    process_space,
    use_interface,
)
from envlab.errors import LaunchError

SEVERAL = [
    Interface("lo", "127.0.0.1"),
    Interface("mgmt0", "192.168.1.5"),
    Interface("ib0", "10.0.0.5"),
    Interface("ib0", "10.0.0.6"),
]


def test_the_kernel_names_the_loopback_first_and_it_is_the_way_to_this_node():
    assert interfaces()[0] == ("lo", "127.0.0.1")
    assert address_towards("localhost") == "127.0.0.1"
    assert interface_of("127.0.0.1") == interface_of("127.0.1.1") == ("lo", "127.0.0.1")


def test_the_interface_is_the_one_that_bears_the_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "interfaces", lambda: SEVERAL)
    assert interface_of("192.168.1.5") == ("mgmt0", "192.168.1.5")
    # gloo takes an interface's first address, so others must connect to that one.
    assert interface_of("10.0.0.6") == ("ib0", "10.0.0.5")
    assert interface_of("10.9.9.9") is None
    # One that is missing is refused with those that exist.
    assert interface_named("ib0,eth0") == ("ib0", "10.0.0.5")
    with pytest.raises(LaunchError, match=r"'eth0'.* has: lo \(127.0.0.1\), mgmt0 .*unset GLOO"):
        interface_named("eth0")


def test_an_interface_named_by_the_user_stays():
    environ = {"GLOO_SOCKET_IFNAME": "mine"}
    use_interface(SEVERAL[2], environ, nccl=True)
    assert environ == {"GLOO_SOCKET_IFNAME": "mine", "NCCL_SOCKET_IFNAME": "=ib0"}
    environ = {}
    use_interface(SEVERAL[2], environ, nccl=False)
    assert environ == {"GLOO_SOCKET_IFNAME": "ib0"}


def test_nodes_of_one_name_and_clones_of_one_machine_are_distinguished(
    monkeypatch: pytest.MonkeyPatch,
):
    before = (network_space(), process_space())
    assert before == (network_space(), process_space())
    assert all(socket.gethostname() in space for space in before)
    with monkeypatch.context() as patch:
        patch.setattr(module, "boot_id", lambda: "another machine's")
        assert network_space() != before[0]
        assert process_space() != before[1]
    monkeypatch.setattr(module, "interfaces", lambda: SEVERAL)  # a clone has another address
    assert network_space() != before[0]


def test_a_store_for_other_nodes_listens_on_their_interface(monkeypatch: pytest.MonkeyPatch):
    for host, resolved, where in [
        ("localhost", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("own-name", "127.0.1.1", None),  # as Debian has it: other nodes know another address
    ]:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (resolved, 0))]
        monkeypatch.setattr(module.socket, "getaddrinfo", lambda *_, found=found, **__: found)
        with listen(host, 0) or contextlib.nullcontext() as listener:
            assert (listener and listener.getsockname()[0]) == where
        if where is not None:
            assert listen(host, 0, has_other_nodes=True) is None
