"""Which rank is to blame, as a pure function of one rank's observations."""

from __future__ import annotations

from typing import Any

from envlab.distributed.diagnosis import Diagnosis, diagnose
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
    gather = "gather" if phase == "reduce" else ""
    heartbeat = {
        **{"rank": rank, "host": f"node-{rank}", "machine": "m", "pid": 100 + rank, "number": 3},
        **{"phase": phase, "within": values.pop("within", phase), "detail": gather},
        **{"iteration": 7, "frames": 0, "collectives": 40, "idle_s": 0.1, "is_warm": True},
        **{"waits": gather, "failure": "", **values},
    }
    return Sighting(heartbeat=Heartbeat(**heartbeat), silent_s=silent_s, process=process)


def waiting(rank: int, idle_s: float = TIMEOUT_S + 1, **values: Any) -> Sighting:
    values = {"within": "iteration", "idle_s": idle_s, **values}
    return seen(rank, "reduce", **values)


def cold(rank: int, **values: Any) -> Sighting:
    """Return a rank before its first update."""
    return seen(rank, is_warm=False, **values)


def left(rank: int) -> Sighting:
    return seen(rank, "close", process="gone")


def verdict(*ranks: Sighting, **values: Any) -> Diagnosis | None:
    """Return what rank 0 concludes."""
    sightings = {one.heartbeat.rank: one for one in ranks}
    return diagnose(sightings, 0, timeout_s=TIMEOUT_S, **values)


def guilty(*ranks: Sighting, **values: Any) -> list[int]:
    found = verdict(*ranks, **values)
    return [] if found is None else list(found.guilty)


STOPPED = {"process": "stopped", "silent_s": LOST_AFTER_S + 1}
SILENT = seen(1, process="elsewhere", silent_s=LOST_AFTER_S + 1)
"""A machine that does not answer."""
ON_GPU = seen(0, "learn", idle_s=10 * TIMEOUT_S)
"""It waits outside collectives."""

INNOCENT = {
    "all make progress": [seen(0), seen(1, "learn"), waiting(2, 0.5)],
    "too early": [waiting(0, TIMEOUT_S - 1), seen(1, idle_s=TIMEOUT_S - 1)],
    "however long it waits for one that progresses": [waiting(0, 600.0), seen(1, "checkpoint")],
    "on a GPU, while a rank behind progresses": [ON_GPU, seen(1)],
    "leaving is no death": [seen(0), seen(1, "close", process="gone", silent_s=300.0)],
    "stopped, and not yet warm": [cold(0), cold(1, **STOPPED)],
    "silent, as it may hold the interpreter": [waiting(0, 30.0), seen(1, silent_s=30.0)],
    "the run continues, so only a machine's news is late": [seen(0), SILENT],
    "compiling may take longer": [cold(0, idle_s=TIMEOUT_S + 1), waiting(1, is_warm=False)],
}


def test_nobody_is_named_while_the_job_may_go_on():
    for name, ranks in INNOCENT.items():
        assert verdict(*ranks) is None, name


AHEAD = {"iteration": 8, "within": "collect"}
FAILED = seen(1, process="gone", failure="ValueError: broken")
HELD = seen(1, silent_s=TIMEOUT_S)
GUILTY: dict[str, tuple[str, list[int], str, list[Sighting]]] = {
    "stands still": ("stalled", [1], "", [waiting(0), seen(1, idle_s=TIMEOUT_S), waiting(2)]),
    "behind one on a GPU": ("stalled", [1], "", [ON_GPU, seen(1, idle_s=0.9 * TIMEOUT_S)]),
    "behind": ("stalled", [1], "", [ON_GPU, seen(1, "learn", idle_s=TIMEOUT_S, collectives=39)]),
    "as far as another": ("stalled", [0, 1], "", [ON_GPU, seen(1, "learn", idle_s=TIMEOUT_S)]),
    "ahead": ("stalled", [1], "skipped a collective", [waiting(0), waiting(1, **AHEAD)]),
    "minority": ("stalled", [0], "", [waiting(0, waits="all_reduce"), waiting(1), waiting(2)]),
    "all wait for all": ("stalled", [0, 1], "network", [waiting(0), waiting(1)]),
    "left": ("stalled", [2], "", [waiting(0), waiting(1), left(2)]),
    "cannot leave": ("stalled", [0], "", [seen(0, "close", idle_s=TIMEOUT_S), left(1)]),
    "dead at the start": ("gone", [1], "died", [cold(0), cold(1, process="gone")]),
    "not called dead": ("failed", [1], "failed (ValueError: broken)", [waiting(0, 1.0), FAILED]),
    "stopped for ten seconds": ("lost", [1], "SIGSTOP", [seen(0), seen(1, **STOPPED)]),
    "silent for long": ("stalled", [1], "native code holds its interpreter", [waiting(0), HELD]),
    "waited when last heard": ("stalled", [1], "", [waiting(0), waiting(1, silent_s=TIMEOUT_S)]),
    "its machine is silent": ("lost", [1], "", [waiting(0, LOST_AFTER_S + 1), SILENT]),
    "compiles for too long": (
        *("stalled", [0], ""),
        [cold(0, idle_s=STARTUP_TIMEOUT_S), waiting(1, is_warm=False)],
    ),
    # That the first update is done was heard from one rank, and holds for all.
    "silent since before it": ("stalled", [1], "", [waiting(0), cold(1, silent_s=TIMEOUT_S)]),
    "alone": (
        *("stalled", [0], "has made no progress"),
        [seen(0, "learn", idle_s=TIMEOUT_S, waits="backward pass")],
    ),
}


def test_a_rank_that_keeps_the_job_from_going_on_is_named_with_the_reason():
    for name, (kind, ranks, words, sightings) in GUILTY.items():
        found = verdict(*sightings)
        assert found is not None, name
        assert (found.kind, list(found.guilty)) == (kind, ranks), name
        assert words in found.guilty[ranks[0]], name


def test_the_sentence_names_rank_host_and_process():
    ranks = [waiting(0), seen(1, "collect", idle_s=TIMEOUT_S), waiting(2)]
    assert verdict(*ranks).sentence(dict(enumerate(ranks))) == (
        "Rank 1 (host node-1, pid 101) has made no progress for 60 s in collect of iteration 7."
    )


def test_rank_0_is_named_by_the_others_like_any_rank():
    stopped = {0: seen(0, **STOPPED), 1: seen(1)}
    found = diagnose(stopped, 1, timeout_s=TIMEOUT_S)
    assert (found.kind, list(found.guilty)) == ("lost", [0])


def test_silence_means_nothing_while_the_store_is_silent():
    own = waiting(0, LOST_AFTER_S + 1)
    assert guilty(own, SILENT, store_silent_s=LOST_AFTER_S / 2) == []


def test_a_store_that_does_not_answer_is_named_once_no_rank_progresses():
    found = verdict(waiting(0), SILENT, store="a:1", store_silent_s=11.0)
    assert (found.kind, found.guilty) == ("lost", {})
    assert found.about.startswith("The launcher's store at a:1 has not answered for 11 s")
    assert verdict(seen(0), SILENT, store_silent_s=60.0) is None


def test_time_without_progress_before_the_first_update_does_not_count_after_it():
    compiled = seen(1, "reset", idle_s=300.0, is_warm=False)
    assert verdict(waiting(0, 1.0), compiled, warm_for_s=0.5) is None
    assert guilty(waiting(0), compiled, warm_for_s=TIMEOUT_S) == [1]
