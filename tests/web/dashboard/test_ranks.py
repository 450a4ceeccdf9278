"""The state of ranks, and which one is to blame, by their heartbeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envlab_web.dashboard.ranks import read_ranks
from tests.web.dashboard.logs import write_heartbeats

RUNNING = {"status": "running"}
CASES: dict[str, tuple[dict[str, Any], float, str, str]] = {
    "well": ({}, 2.0, "ok", ""),
    "stopped": (
        {"process": "stopped", "seconds_since_progress": 7.0},
        2.0,
        "lost",
        "Rank 1 (host node-b, pid 4712) is stopped (by SIGSTOP), and made no progress for 9 s.",
    ),
    "gone": (
        {"process": "gone"},
        2.0,
        "lost",
        "Rank 1 (host node-b, pid 4712) is gone: its process has ended.",
    ),
    "not heard": (
        {"seconds_since_heard": 11.0},
        2.0,
        "lost",
        "Rank 1 (host node-b, pid 4712) has not been heard from for 13 s.",
    ),
    "stalled": (
        {"seconds_since_progress": 130.0},
        2.0,
        "lost",
        "Rank 1 (host node-b, pid 4712) has made no progress for 132 s.",
    ),
    "slow": (
        {"seconds_since_progress": 20.0},
        2.0,
        "slow",
        "Rank 1 (host node-b, pid 4712) has made no progress for 22 s.",
    ),
    "waiting for others": ({"phase": "reduce", "seconds_since_progress": 130.0}, 2.0, "ok", ""),
}


def test_a_rank_is_judged_and_named(tmp_path: Path):
    for name in CASES:
        beats, silent_s, state, says = CASES[name]
        write_heartbeats(tmp_path, 12, **beats)
        first, second = read_ranks(tmp_path, RUNNING, silent_s=silent_s)
        assert (first.state, first.says) == ("ok", "")
        assert (second.state, second.says) == (state, says)


def test_where_heartbeats_stop_rank_0_is_named_as_their_writer(tmp_path: Path):
    write_heartbeats(tmp_path, 12)
    first, second = read_ranks(tmp_path, RUNNING, silent_s=20.0)
    assert (first.state, second.state) == ("lost", "unknown")
    assert first.says.startswith("Rank 0 (host node-a, pid 4711), which writes the heartbeats")


def test_after_the_end_the_rank_that_the_error_names_stays_red(tmp_path: Path):
    write_heartbeats(tmp_path, 12)
    failed = {"status": "failed", "error": "Rank 1 (host node-b, pid 4712) is stopped."}
    first, second = read_ranks(tmp_path, failed, silent_s=1000.0)
    assert (first.state, second.state, second.idle_s) == ("ended", "lost", 0.1)
    assert not read_ranks(tmp_path / "elsewhere", failed, silent_s=0.0)
