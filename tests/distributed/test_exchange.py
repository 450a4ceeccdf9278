"""The exchange of heartbeats: the rank that keeps the store leaves it last."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace

from envlab.distributed.exchange import Exchange
from envlab.distributed.heartbeat import Heartbeat
from envlab.distributed.progress import Progress
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.rendezvous import open_store
from tests.agents import free_port


def exchange_of(rank: int, point: MeetingPoint) -> Exchange:
    """Return the exchange of one of two ranks, both in this process."""
    heartbeats = [Heartbeat.of(Progress(), other, 0) for other in range(2)]
    context = SimpleNamespace(
        rank=rank,
        is_main=rank == 0,
        world_size=2,
        broadcast=lambda value: "start",
        gather=lambda mine: heartbeats,
    )
    beat = lambda number: Heartbeat.of(Progress(), rank, number)  # noqa: E731
    return Exchange(context, beat, point)  # type: ignore[arg-type]


def test_the_rank_that_keeps_the_store_leaves_it_last():
    """Otherwise, torch prints 20 frames of C++, "Broken pipe", for a rank that still writes."""
    point = MeetingPoint("127.0.0.1", free_port(), False, "id", "")
    kept = open_store(point, 0, timedelta(seconds=10))
    second, first = exchange_of(1, point), exchange_of(0, point)
    for one in (second, first):
        one.start()
    leaving = threading.Thread(target=first.stop)
    leaving.start()
    leaving.join(1.5)
    assert leaving.is_alive()
    second.stop()
    leaving.join(30.0)
    assert not leaving.is_alive()
    assert not second.is_alive()
    del kept
