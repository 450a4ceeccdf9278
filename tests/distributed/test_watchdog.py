"""The watchdog of one rank, with a simulated peer.

Its effect on real jobs is tested in ``tests/training/test_watchdog.py``.
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


class Clock:
    """The time, as the watchdog sees it."""

    seconds = 0.0
    """The lead over the real time."""

    def __call__(self) -> float:
        return monotonic() + self.seconds


class Exited(BaseException):
    """Raised instead of ending the process."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for name in ("exchange", "heartbeat", "progress", "watchdog"):
        monkeypatch.setattr(f"envlab.distributed.{name}.monotonic", made)
    return made


@pytest.fixture
def watchdog(store: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watchdog]:
    """The watchdog of rank 0, which only looks on demand; rank 1 was heard once."""

    def leave(code: int) -> None:
        # private: the end of this process is faked, which nothing shows from outside
        made._ending.clear()  # the end is faked: the process lives on
        if made.exchange is not None:
            made.exchange.verdict = ""
        raise Exited(code)

    monkeypatch.setattr(module.os, "_exit", leave)
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
    # private: its thread would look by the real clock
    made._stopping.set()
    made._thread.join(10.0)  # private: as above
    yield made
    made.close()


@pytest.fixture
def without_news(watchdog: Watchdog) -> None:
    """End the exchange, as happens when the launcher's store closes the connection."""
    assert watchdog.exchange is not None
    watchdog.exchange.stop()
    watchdog.exchange.join(10.0)


def look(watchdog: Watchdog, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.seconds += 1.0
        watchdog.look()


def test_a_job_that_was_suspended_is_innocent(watchdog: Watchdog, clock: Clock):
    """All clocks have advanced; the rank's first heartbeat must not show that, either."""
    clock.seconds += 1000.0
    watchdog.look()
    clock.seconds += 1000.0
    heartbeat = watchdog.heartbeat(7)
    assert heartbeat.idle_s < 5.0
    watchdog.look()


@pytest.mark.usefixtures("without_news")
def test_without_news_of_the_others_only_this_rank_is_judged(
    watchdog: Watchdog, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    watchdog.progress.mark()  # the clock also counts real time, and setting up may take long
    look(watchdog, clock, int(TIMEOUT_S) - 10)  # neither the store nor rank 1 is to blame
    with pytest.raises(Exited, match="70"):
        look(watchdog, clock, 12)
    assert "-> rank 0" in capsys.readouterr().err


@pytest.mark.usefixtures("without_news")
def test_without_news_of_the_others_a_collective_may_take_long(watchdog: Watchdog, clock: Clock):
    with watchdog.progress.during("reduce", "sum"):  # rank 1 may be at work
        look(watchdog, clock, 3 * int(TIMEOUT_S))


def test_a_rank_that_leaves_does_not_wait_for_a_verdict_it_knows(watchdog: Watchdog):
    assert watchdog.exchange is not None
    # private: an instant within close()
    watchdog._is_leaving = True
    watchdog.exchange.verdict = GONE.to_json()
    began = monotonic()
    watchdog.close()
    assert monotonic() - began < 5.0


def test_a_rank_with_an_error_of_its_own_has_time_to_close_what_is_open(
    watchdog: Watchdog, clock: Clock
):
    watchdog.progress.failure = "TypeError: wrong"
    look(watchdog, clock, int(TIMEOUT_S) - 5)
    with pytest.raises(Exited, match="70"):
        look(watchdog, clock, 10)


def test_a_rank_that_leaves_reports_it_last(store: dist.Store, watchdog: Watchdog):
    watchdog.progress.mark("close")
    watchdog.close()
    heartbeat = Heartbeat.from_json(store.get(f"{PREFIX}heartbeat/0"))
    assert heartbeat.phase == "close"


def test_a_closed_watchdog_sets_no_timer_that_would_end_a_living_process(
    watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
):
    """It is closed in the middle of a look, which sets the timer at its end."""
    calls: list[str] = []

    def look(self: Watchdog) -> None:
        calls.append("looks")
        sleep(0.3)
        calls.append("sets")

    monkeypatch.setattr(module, "TICK_S", 0.01)
    # private: an instant within a look
    monkeypatch.setattr(Watchdog, "_arm_fallback", look)
    monkeypatch.setattr(module.last_resort, "disarm", lambda: calls.append("unsets"))
    looking = Watchdog(watchdog.context, end_run=lambda *_: None)
    while not calls:
        sleep(0.01)
    looking.close()
    sleep(0.4)
    assert calls[-1] == "unsets"
