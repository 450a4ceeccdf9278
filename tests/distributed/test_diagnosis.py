"""Which rank is to blame, as a pure function of one rank's observations."""

from __future__ import annotations

from typing import Any

import pytest

from envlab.distributed.diagnosis import diagnose
from envlab.distributed.heartbeat import Heartbeat, Sighting
from envlab.distributed.timeouts import LOST_AFTER_S, STARTUP_TIMEOUT_S

TIMEOUT_S = 60.0


def seen(
    rank: int,
    phase: str = "collect",
    *,
    silent_s: float = 0.0,
    process: str = "running",
    **values: Any,
) -> Sighting:
    """Return a rank in iteration 7 that made progress a moment ago, as changed by ``values``."""
    heartbeat = {
        "rank": rank,
        "host": f"node-{rank}",
        "machine": "m",
        "pid": 100 + rank,
        "number": 3,
        "phase": phase,
        "within": values.pop("within", phase),
        "detail": "gather" if phase == "reduce" else "",
        "iteration": 7,
        "frames": 0,
        "collectives": 40,
        "idle_s": 0.1,
        "is_warm": True,
        "waits": "gather" if phase == "reduce" else "",
        "failure": "",
        **values,
    }
    return Sighting(heartbeat=Heartbeat(**heartbeat), silent_s=silent_s, process=process)


def waiting(rank: int, idle_s: float = TIMEOUT_S + 1, **values: Any) -> Sighting:
    values = {"within": "iteration", "idle_s": idle_s, **values}
    return seen(rank, "reduce", **values)


def verdict(*ranks: Sighting, own: int = 0, **values: Any) -> Any:
    sightings = {one.heartbeat.rank: one for one in ranks}
    return diagnose(sightings, own, timeout_s=TIMEOUT_S, **values)


def guilty(*ranks: Sighting, **values: Any) -> list[int]:
    found = verdict(*ranks, **values)
    return [] if found is None else list(found.guilty)


def test_all_is_well_while_every_rank_makes_progress():
    assert verdict(seen(0), seen(1, "learn"), waiting(2, 0.5)) is None


def test_a_rank_that_stands_still_is_named_and_not_those_that_wait_for_it():
    stuck = seen(1, "collect", idle_s=TIMEOUT_S)
    found = verdict(waiting(0), stuck, waiting(2))
    assert (found.kind, list(found.guilty)) == ("stalled", [1])
    sentence = found.sentence({one.heartbeat.rank: one for one in (waiting(0), stuck, waiting(2))})
    assert sentence == (
        "Rank 1 (host node-1, pid 101) has made no progress for 60 s in collect of iteration 7."
    )


def test_nobody_is_named_before_the_timeout():
    assert verdict(waiting(0, TIMEOUT_S - 1), seen(1, idle_s=TIMEOUT_S - 1)) is None


def test_a_rank_that_waits_for_a_progressing_one_is_innocent_however_long_it_waits():
    assert verdict(waiting(0, 10 * TIMEOUT_S), seen(1, "checkpoint")) is None


def test_on_a_gpu_waiting_outside_collectives_is_innocent_while_a_rank_behind_progresses():
    synchronizing = seen(0, "learn", idle_s=10 * TIMEOUT_S)
    assert verdict(synchronizing, seen(1, "collect")) is None
    stuck = seen(1, "collect", idle_s=0.9 * TIMEOUT_S)
    assert guilty(synchronizing, stuck) == [1]


def test_the_rank_furthest_behind_is_named_among_those_that_stand_still():
    later = seen(0, "learn", idle_s=TIMEOUT_S + 5)
    behind = seen(1, "learn", idle_s=TIMEOUT_S, collectives=39)
    assert guilty(later, behind) == [1]
    assert guilty(later, seen(1, "learn", idle_s=TIMEOUT_S)) == [0, 1]  # they are indistinguishable


def test_a_rank_that_went_past_a_collective_is_named():
    ahead = waiting(1, iteration=8, within="collect")
    found = verdict(waiting(0), ahead)
    assert list(found.guilty) == [1]
    assert "has passed over a collective" in found.guilty[1]


def test_the_minority_is_named_where_ranks_wait_in_different_collectives():
    assert guilty(waiting(0, waits="all_reduce"), waiting(1), waiting(2)) == [0]


def test_all_are_named_where_all_wait_in_the_same_collective():
    found = verdict(waiting(0), waiting(1))
    assert list(found.guilty) == [0, 1]
    assert "network" in found.guilty[0]


def test_a_rank_that_left_while_others_wait_is_named():
    assert guilty(waiting(0), waiting(1), seen(2, "close", process="gone")) == [2]


def test_leaving_is_no_death():
    assert verdict(seen(0), seen(1, "close", process="gone", silent_s=300.0)) is None


def test_a_rank_that_cannot_leave_is_named_by_itself():
    assert guilty(seen(0, "close", idle_s=TIMEOUT_S), seen(1, "close", process="gone")) == [0]


def test_a_dead_process_is_named_at_once_even_at_the_start():
    found = verdict(seen(0, is_warm=False), seen(1, process="gone", is_warm=False))
    assert (found.kind, list(found.guilty)) == ("gone", [1])


def test_a_rank_that_failed_is_named_with_its_error_and_not_as_dead():
    failed = seen(1, process="gone", failure="ValueError: broken")
    found = verdict(waiting(0, 1.0), failed)
    assert (found.kind, found.guilty) == ("failed", {1: "failed (ValueError: broken)"})


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_stopped_process_is_named_after_ten_seconds_once_all_is_warm(is_warm: bool):
    stopped = seen(1, process="stopped", silent_s=LOST_AFTER_S + 1, is_warm=is_warm)
    assert guilty(seen(0, is_warm=is_warm), stopped) == ([1] if is_warm else [])


def test_a_silent_process_of_this_machine_has_the_full_timeout_for_it_may_hold_the_interpreter():
    assert verdict(waiting(0, 30.0), seen(1, silent_s=30.0)) is None
    found = verdict(waiting(0), seen(1, silent_s=TIMEOUT_S))
    assert "native code holds its interpreter" in found.guilty[1]


def test_a_silent_rank_is_not_excused_by_having_waited_when_last_heard():
    assert guilty(waiting(0), waiting(1, silent_s=TIMEOUT_S)) == [1]


def test_a_silent_machine_is_named_after_ten_seconds_without_progress_here():
    silent = seen(1, process="elsewhere", silent_s=LOST_AFTER_S + 1)
    assert guilty(waiting(0, LOST_AFTER_S + 1), silent) == [1]
    assert guilty(seen(0), silent) == []  # the run continues, so only its news is late


def test_silence_means_nothing_while_the_store_is_silent():
    silent = seen(1, process="elsewhere", silent_s=LOST_AFTER_S + 1)
    own = waiting(0, LOST_AFTER_S + 1)
    assert guilty(own, silent, store_silent_s=LOST_AFTER_S / 2) == []


def test_a_store_that_does_not_answer_is_named_once_no_rank_progresses():
    silent = seen(1, process="elsewhere", silent_s=LOST_AFTER_S + 1)
    found = verdict(waiting(0, LOST_AFTER_S + 1), silent, store="a:1", store_silent_s=11.0)
    assert (found.kind, found.guilty) == ("lost", {})
    assert found.about.startswith("The launcher's store at a:1 has not answered for 11 s")
    assert verdict(seen(0), silent, store_silent_s=60.0) is None


def test_until_the_first_update_compiling_may_take_longer():
    early = [seen(0, idle_s=TIMEOUT_S + 1, is_warm=False), waiting(1, is_warm=False)]
    assert verdict(*early) is None
    assert guilty(seen(0, idle_s=STARTUP_TIMEOUT_S, is_warm=False), early[1]) == [0]


def test_the_first_update_of_one_rank_counts_for_all_even_if_others_have_not_reported_it():
    assert guilty(waiting(0), seen(1, silent_s=TIMEOUT_S, is_warm=False)) == [1]


def test_time_without_progress_before_the_first_update_does_not_count_after_it():
    compiled = seen(1, "reset", idle_s=300.0, is_warm=False)
    assert verdict(waiting(0, 1.0), compiled, warm_for_s=0.5) is None
    assert guilty(waiting(0), compiled, warm_for_s=TIMEOUT_S) == [1]


def test_a_single_process_can_stall_too_whatever_it_waits_for():
    assert guilty(seen(0, "learn", idle_s=TIMEOUT_S, waits="backward pass")) == [0]
