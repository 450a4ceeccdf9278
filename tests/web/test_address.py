"""The address of a page: the next free port, the loopback alone, and a token."""

from __future__ import annotations

import socket

import pytest

from envlab.errors import ConfigurationError
from envlab_web import address as module
from envlab_web.address import Address, take_address


@pytest.fixture
def taken(monkeypatch):
    monkeypatch.setattr(module, "NUM_PORTS", 20)
    with take_address(0).listener as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_reported_and_the_next_free_one_taken(taken):
    address = take_address(taken)
    with address.listener:
        assert address.port > taken
        assert address.note == f"Port {taken} cannot be used; taking {address.port}."
        assert address.note in address.lines("Dashboard")


def test_only_this_machine_can_reach_it():
    with take_address(0).listener as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        assert listener.family == socket.AF_INET


def test_the_token_is_new_each_time_and_nothing_else_is_admitted():
    listener = socket.socket()
    with listener:
        first, second = Address(listener=listener), Address(listener=listener)
        assert first.token != second.token
        assert len(first.token) >= 32
        assert first.admits(first.token)
        for wrong in (second.token, first.token[:-1], first.token + "x", "", None, "\udcff", "ä"):
            assert not first.admits(wrong)


def test_a_number_that_is_no_port_is_refused():
    for port in [-1, 65536]:
        with pytest.raises(ConfigurationError, match=f"--port is {port}"):
            take_address(port)


def test_no_free_port_is_refused(taken, monkeypatch):
    monkeypatch.setattr(module, "NUM_PORTS", 1)
    with pytest.raises(ConfigurationError, match=f"ports {taken} to {taken}"):
        take_address(taken)
