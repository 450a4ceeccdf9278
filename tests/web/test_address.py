"""The address of a page: the next free port, the loopback alone, and a token."""

from __future__ import annotations

import socket

import pytest

from envlab_web import address as module
from envlab_web.address import Address, take_address
from tests.refusals import check_refusals


@pytest.fixture
def taken(monkeypatch):
    monkeypatch.setattr(module, "NUM_PORTS", 20)
    with take_address(0).listener as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_reported_and_the_next_free_one_taken_for_this_machine_alone(taken):
    address = take_address(taken)
    with address.listener as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        assert listener.family == socket.AF_INET
        assert address.port > taken
        assert address.note == f"Port {taken} cannot be used; taking {address.port}."
        assert address.note in address.lines("Dashboard")


def test_the_token_is_new_each_time_and_nothing_else_is_admitted():
    listener = socket.socket()
    with listener:
        first, second = Address(listener=listener), Address(listener=listener)
        assert first.token != second.token
        assert len(first.token) >= 32
        assert first.admits(first.token)
        for wrong in (second.token, first.token[:-1], first.token + "x", "", None, "\udcff", "ä"):
            assert not first.admits(wrong)


def test_numbers_that_are_no_port_or_no_free_one_are_refused(taken, monkeypatch):
    monkeypatch.setattr(module, "NUM_PORTS", 1)
    rows = [(-1, "--port is -1"), (65536, "--port is 65536"), (taken, f"ports {taken} to {taken}")]
    check_refusals(take_address, rows)
