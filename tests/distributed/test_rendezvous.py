"""The ranks of a start find each other, and no rank of an earlier start in the same store.

A meeting point that does not answer is reported in a sentence: the attempt and the remedy.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psutil
import pytest
import torch.distributed as dist

from envlab.distributed import rendezvous
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.rendezvous import meet, open_store
from envlab.errors import LaunchError
from tests.agents import dead_port, free_port

TIMEOUT = timedelta(seconds=10)
SOON = timedelta(seconds=0.4)


@pytest.fixture
def where() -> tuple[MeetingPoint, dist.TCPStore]:
    """A store as torchrun's agent keeps it, through all starts of its workers."""
    agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return MeetingPoint("127.0.0.1", agent.port, True, "some id", ""), agent


def start(place: MeetingPoint, ranks: list[int], world_size: int) -> dict[int, str]:
    """Have ranks meet, each in a thread; return the value each then finds in the store."""
    found: dict[int, str] = {}

    def join(rank: int) -> None:
        store = meet(place, rank, world_size, TIMEOUT)
        if rank == 0:
            found[0] = "old" if store.check(["address"]) else "empty"
            store.set("address", "mine")
            store.set("looked", "")
        store.get("looked")
        found[rank] = found.get(rank, store.get("address").decode())

    with ThreadPoolExecutor(len(ranks)) as threads:
        list(threads.map(join, ranks))
    return found


def test_each_start_finds_an_empty_store_and_no_message_of_a_dead_rank(
    where: tuple[MeetingPoint, dist.TCPStore],
):
    place, agent = where
    for _ in range(3):
        assert start(place, [2, 1, 0], 3) == {0: "empty", 1: "mine", 2: "mine"}
    dist.PrefixStore("envlab/some id", agent).set("hello/1", "a word of the dead")
    assert start(place, [0, 1], 2) == {0: "empty", 1: "mine"}


def test_ranks_that_do_not_come_are_named(where: tuple[MeetingPoint, dist.TCPStore]):
    place, _ = where
    with pytest.raises(dist.DistStoreError, match="no word from rank 1, 2 after"):
        meet(place, 0, 3, timedelta(seconds=0.2))


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2)])
def test_ranks_that_were_started_with_two_world_sizes_report_it(
    first: int, second: int, where: tuple[MeetingPoint, dist.TCPStore]
):
    messages: dict[int, str] = {}

    def join(rank: int, world_size: int) -> None:
        try:
            meet(where[0], rank, world_size, TIMEOUT)
        except LaunchError as error:
            messages[rank] = str(error)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(join, (0, 1), (first, second)))
    expected = f"Rank 1 was started as one of {second} ranks, but rank 0 as one of {first}."
    assert messages[0] == messages[1]
    assert messages[0].startswith(expected)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "PATIENCE_S", 0.2)
    monkeypatch.setattr(rendezvous, "REACH_S", 0.4)


def point(host: str, port: int, *, is_kept: bool) -> MeetingPoint:
    return MeetingPoint(host, port, is_kept, "id", "Do this.")


@pytest.mark.usefixtures("in_a_hurry")
def test_a_meeting_point_that_does_not_answer_is_named_with_the_reason(
    caplog: pytest.LogCaptureFixture,
):
    for host, reason in [
        ("127.0.0.1", "Connection refused"),
        ("no-such-node.invalid", "Name or service|resolution"),
    ]:
        rank = f"Rank 1 on {socket.gethostname()}"
        expected = rf"{rank} cannot reach .* at {host}:\d+ .*{reason}.* Do this"
        with dead_port() as port, pytest.raises(LaunchError, match=expected):
            open_store(point(host, port, is_kept=True), 1, SOON)
    # Where rank 0 keeps the store, it is waited for.
    with dead_port() as port, pytest.raises(LaunchError, match="Connection refused"):
        open_store(point("127.0.0.1", port, is_kept=False), 1, SOON)
    assert "Waiting for rank 0, which does not answer" in caplog.text


def test_rank_0_keeps_no_store_at_an_address_of_another_node_or_a_port_that_is_taken():
    with pytest.raises(LaunchError, match=r"Rank 0 .* does not have that address .* Do this"):
        open_store(point("192.0.2.1", free_port(), is_kept=False), 0, SOON)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = point("127.0.0.1", taken.getsockname()[1], is_kept=False)
        with pytest.raises(LaunchError, match=r"already in use.* Do this"):
            open_store(place, 0, SOON)


def test_ranks_share_their_store_which_listens_on_their_interface_only():
    place = point("127.0.0.1", free_port(), is_kept=False)
    timeout = timedelta(seconds=10.0)
    kept = open_store(place, 0, timeout)
    found = psutil.Process().connections("inet")
    listening = [one.laddr for one in found if one.status == "LISTEN"]
    assert [address.ip for address in listening if address.port == place.port] == ["127.0.0.1"]
    open_store(place, 1, timeout).set("key", "from rank 1")
    assert kept.get("key") == b"from rank 1"
    assert open_store(place, 0, timeout).get("key") == b"from rank 1"  # of a script's second run
