"""The ranks of a start find each other, and no rank of an earlier start in the same store."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch.distributed as dist

from envlab.distributed.interface import VARIABLE
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.rendezvous import meet

TIMEOUT = timedelta(seconds=10)


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> tuple[MeetingPoint, dist.TCPStore]:
    """A store as torchrun's agent keeps it, through all starts of its workers."""
    agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv(VARIABLE, "lo")  # so that what the ranks set is undone
    return MeetingPoint("127.0.0.1", agent.port, True, "some id", ""), agent


def start(place: MeetingPoint, ranks: list[int], world_size: int) -> dict[int, str]:
    """Have ranks meet, each in a thread; return what each finds in the store afterwards."""
    found: dict[int, str] = {}

    def join(rank: int) -> None:
        store = meet(place, rank, world_size, nccl=False, timeout=TIMEOUT)
        if rank == 0:
            found[0] = "old" if store.check(["address"]) else "empty"
            store.set("address", "mine")
            store.set("looked", "")
        store.get("looked")
        found[rank] = found.get(rank, store.get("address").decode())

    threads = [threading.Thread(target=join, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    return found


def test_each_start_finds_an_empty_store(where: tuple[MeetingPoint, dist.TCPStore]):
    place, _ = where
    for _ in range(3):
        assert start(place, [2, 1, 0], 3) == {0: "empty", 1: "mine", 2: "mine"}


def test_what_a_dead_rank_has_said_is_not_taken_for_its_successor(
    where: tuple[MeetingPoint, dist.TCPStore],
):
    place, agent = where
    dist.PrefixStore("envlab/some id", agent).set("hello/1", "a word of the dead")
    assert start(place, [0, 1], 2) == {0: "empty", 1: "mine"}


def test_ranks_that_do_not_come_are_named(where: tuple[MeetingPoint, dist.TCPStore]):
    place, _ = where
    with pytest.raises(dist.DistStoreError, match="no word from rank 1, 2 after"):
        meet(place, 0, 3, nccl=False, timeout=timedelta(seconds=0.2))
