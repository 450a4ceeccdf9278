"""The state of ranks, and which rank is to blame, by their heartbeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envlab_web.dashboard.ranks import read_ranks
from tests.web.dashboard.logs import write_heartbeats

RUNNING = {"status": "running"}
IDLE = "seconds_since_progress"
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "ok", ""),
    (
        {"process": "stopped", IDLE: 7.0},
        *("lost", "is stopped (by SIGSTOP), and made no progress for 9 s."),
    ),
    ({"process": "gone"}, "lost", "is gone: its process has ended."),
    ({"seconds_since_heard": 11.0}, "lost", "has not been heard from for 13 s."),
    ({IDLE: 130.0}, "lost", "has made no progress for 132 s."),
    ({IDLE: 20.0}, "slow", "has made no progress for 22 s."),
    ({"phase": "reduce", IDLE: 130.0}, "ok", ""),  # it waits for others
]
"""Heartbeats of rank 1, two seconds ago, and what is made of them."""


def test_a_rank_is_judged_and_named(tmp_path: Path):
    for beats, state, says in CASES:
        write_heartbeats(tmp_path, 12, **beats)
        first, second = read_ranks(tmp_path, RUNNING, silent_s=2.0)
        assert (first.state, first.says) == ("ok", "")
        sentence = f"Rank 1 (host node-b, pid 4712) {says}" if says else ""
        assert (second.state, second.says) == (state, sentence)


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
