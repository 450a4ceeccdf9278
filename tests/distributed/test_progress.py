"""A rank's current activity, kept in a few attributes."""

from __future__ import annotations

import timeit
from time import monotonic, sleep

import pytest

from envlab.distributed import progress as progress_module
from envlab.distributed.heartbeat import Heartbeat
from envlab.distributed.progress import LostPeerError, Progress


def test_a_mark_costs_less_than_a_step_could_notice():
    progress = Progress()
    seconds = min(timeit.repeat(lambda: progress.mark("collect"), number=2000, repeat=20)) / 2000
    assert seconds < 3e-6  # 0.3 us on an idle machine


def test_a_collective_is_within_a_phase_and_returns_to_it():
    progress = Progress()
    progress.mark("checkpoint", iteration=3)
    with progress.during("reduce", "gather"):
        heartbeat = Heartbeat.of(progress, rank=1, number=1)
        where = (heartbeat.phase, heartbeat.within, heartbeat.waits)
        assert where == ("reduce", "checkpoint", "gather")
        assert heartbeat.place == "reduce (gather, in checkpoint) of iteration 3"
    heartbeat = Heartbeat.of(progress, rank=1, number=2)
    assert (heartbeat.phase, heartbeat.waits, heartbeat.collectives) == ("checkpoint", "", 1)
    assert Heartbeat.from_json(heartbeat.to_json()) == heartbeat


def test_after_an_error_the_place_is_still_known():
    progress = Progress()
    with pytest.raises(RuntimeError), progress.during("reduce", "sum"):
        raise RuntimeError("Connection closed by peer")
    assert (progress.phase, progress.detail) == ("reduce", "sum")


def test_an_error_that_follows_from_a_lost_peer_is_replaced_by_its_name():
    progress = Progress()
    progress.lost_peer = lambda error, _: "Rank 1 died." if "gloo" in str(error) else None
    with pytest.raises(LostPeerError, match="Rank 1 died"), progress.naming_lost_peers():
        raise RuntimeError("[gloo] Connection closed by peer")
    assert progress.failure == ""
    with pytest.raises(ValueError, match="mine"), progress.naming_lost_peers():
        raise ValueError("mine\nsecond line")
    assert progress.failure == "ValueError: mine"


def test_a_new_run_has_time_to_start():
    progress = Progress()
    progress.is_warm = True
    progress.begin()
    assert (progress.is_warm, progress.phase) == (False, "start")


def test_waiting_for_another_program_counts_as_progress_for_a_limited_time(monkeypatch):
    monkeypatch.setattr(progress_module, "WAITING_S", 0.01)
    progress = Progress()
    before, limit = progress.marked_at, monotonic() + 10.0
    with progress.waiting(60.0):
        while progress.marked_at == before and monotonic() < limit:
            sleep(0.01)
    assert progress.marked_at > before
    last = progress.marked_at
    with progress.waiting(0.0):
        sleep(0.1)
    assert progress.marked_at == last
