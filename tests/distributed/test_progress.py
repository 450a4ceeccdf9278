"""What a rank is doing, kept in a few attributes."""

from __future__ import annotations

import timeit

import pytest

from envlab.distributed.heartbeat import Beat
from envlab.distributed.progress import LostPeerError, Pulse


def test_a_mark_costs_less_than_a_step_could_notice():
    pulse = Pulse()
    seconds = min(timeit.repeat(lambda: pulse.mark("collect"), number=2000, repeat=20)) / 2000
    assert seconds < 3e-6  # 0.3 us on an idle machine


def test_a_collective_is_within_a_phase_and_returns_to_it():
    pulse = Pulse()
    pulse.mark("checkpoint", iteration=3)
    with pulse.during("reduce", "gather"):
        beat = Beat.of(pulse, rank=1, number=1)
        assert (beat.phase, beat.within, beat.waits) == ("reduce", "checkpoint", "gather")
        assert beat.place == "reduce (gather, in checkpoint) of iteration 3"
    beat = Beat.of(pulse, rank=1, number=2)
    assert (beat.phase, beat.waits, beat.collectives) == ("checkpoint", "", 1)
    assert Beat.from_json(beat.to_json()) == beat


def test_after_an_error_the_place_is_still_known():
    pulse = Pulse()
    with pytest.raises(RuntimeError), pulse.during("reduce", "sum"):
        raise RuntimeError("Connection closed by peer")
    assert (pulse.phase, pulse.detail) == ("reduce", "sum")


def test_an_error_that_follows_from_a_lost_peer_is_replaced_by_its_name():
    pulse = Pulse()
    pulse.lost_peer = lambda error, _: "Rank 1 died." if "gloo" in str(error) else None
    with pytest.raises(LostPeerError, match="Rank 1 died"), pulse.naming_lost_peers():
        raise RuntimeError("[gloo] Connection closed by peer")
    assert pulse.failure == ""
    with pytest.raises(ValueError, match="mine"), pulse.naming_lost_peers():
        raise ValueError("mine\nsecond line")
    assert pulse.failure == "ValueError: mine"


def test_a_new_run_has_time_to_start():
    pulse = Pulse()
    pulse.is_warm = True
    pulse.begin()
    assert (pulse.is_warm, pulse.phase) == (False, "start")
