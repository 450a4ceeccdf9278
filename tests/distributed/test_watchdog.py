"""The watchdog of one rank, whose peer only another part of this test knows.

What it does to real jobs is in ``tests/rl/loop/test_watchdog.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from envlab.distributed import watchdog as module
from envlab.distributed.diagnosis import Diagnosis
from envlab.distributed.heartbeat import Heartbeat
from envlab.distributed.progress import Progress
from envlab.distributed.ranks import MeetingPoint
from envlab.distributed.watchdog import Watchdog

TIMEOUT_S = 60.0
PREFIX = "envlab/token/"
GONE = Diagnosis(kind="gone", guilty={1: "died"})


@pytest.fixture
def store() -> dist.Store:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def watchdog(store: Any) -> Iterator[Watchdog]:
    """The watchdog of rank 0, which does not look by itself; rank 1 said something once."""
    progress = Progress()
    progress.mark("collect", iteration=5)
    progress.is_warm = True

    def gather(heartbeat: Heartbeat) -> list[Heartbeat]:
        other = replace(heartbeat, rank=1, machine="another", pid=1)
        store.set(f"{PREFIX}heartbeat/1", other.to_json())
        store.set(f"{PREFIX}stacks/1", "")
        return [heartbeat, other]

    context: Any = SimpleNamespace(
        rank=0,
        world_size=2,
        is_main=True,
        is_distributed=True,
        device=torch.device("cpu"),
        progress=progress,
        broadcast=lambda value: "token",
        gather=gather,
    )
    point = MeetingPoint("127.0.0.1", store.port, True, "name", "")
    made = Watchdog(context, end_run=lambda *_: None, meeting_point=point, timeout_s=TIMEOUT_S)
    made._stopping.set()
    made._thread.join(10.0)
    yield made
    made.close()


def pass_time(watchdog: Watchdog, seconds: float, *, suspended: bool = False) -> None:
    """Have all that was noted be so long ago; where it was suspended, the last look as well."""
    exchange = watchdog._exchange
    assert exchange is not None
    with exchange._lock:
        exchange._seen = {
            rank: (heartbeat, at - seconds) for rank, (heartbeat, at) in exchange._seen.items()
        }
        exchange.answered_at -= seconds
    watchdog._progress.marked_at -= seconds
    watchdog._ticked_at = monotonic() - (seconds if suspended else 0.0)


def end_exchange(watchdog: Watchdog) -> None:
    """End the thread, as it does where the launcher's store closes the connection."""
    assert watchdog._exchange is not None
    watchdog._exchange.stop()
    watchdog._exchange.join(10.0)


def judged(watchdog: Watchdog) -> Diagnosis | None:
    return watchdog._judge(watchdog._sightings())


def test_a_job_that_was_suspended_is_innocent(watchdog: Watchdog):
    """All clocks have gone on; what this rank tells the others first must not say so, either."""
    pass_time(watchdog, 1000.0, suspended=True)
    assert watchdog._heartbeat(7).idle_s < 5.0
    pass_time(watchdog, 1000.0, suspended=True)
    assert judged(watchdog) is None
    assert max(seen.idle_s for seen in watchdog._sightings().values()) < 5.0


def test_without_news_of_the_others_only_this_rank_is_judged(watchdog: Watchdog):
    end_exchange(watchdog)
    pass_time(watchdog, TIMEOUT_S / 2)  # a long step: neither the store nor rank 1 is to blame
    assert judged(watchdog) is None
    pass_time(watchdog, TIMEOUT_S)
    verdict = judged(watchdog)
    assert verdict is not None
    assert (verdict.kind, list(verdict.guilty)) == ("stalled", [0])
    with watchdog._progress.during("reduce", "sum"):
        pass_time(watchdog, 10 * TIMEOUT_S)
        assert judged(watchdog) is None  # rank 1 may be at work


def test_a_rank_that_leaves_does_not_wait_for_a_verdict_it_knows(watchdog: Watchdog):
    assert watchdog._exchange is not None
    watchdog._is_leaving = True
    watchdog._exchange.verdict = GONE.to_json()
    began = monotonic()
    watchdog.close()
    assert monotonic() - began < 5.0


def test_a_rank_that_leaves_tells_the_others_at_last(store: dist.Store, watchdog: Watchdog):
    watchdog._progress.mark("close")
    watchdog.close()
    heartbeat = Heartbeat.from_json(store.get(f"{PREFIX}heartbeat/0"))
    assert heartbeat.phase == "close"


def test_a_closed_watchdog_sets_no_timer_that_would_end_a_process_that_lives_on(
    watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
):
    """It is closed in the middle of a look, which sets the timer at its end."""
    told: list[str] = []

    def look(self: Watchdog) -> None:
        told.append("looks")
        sleep(0.3)
        told.append("sets")

    monkeypatch.setattr(module, "TICK_S", 0.01)
    monkeypatch.setattr(Watchdog, "_arm_fallback", look)
    monkeypatch.setattr(module.last_resort, "disarm", lambda: told.append("unsets"))
    looking = Watchdog(watchdog._context, end_run=lambda *_: None)
    while not told:
        sleep(0.01)
    looking.close()
    sleep(0.4)
    assert told[-1] == "unsets"
