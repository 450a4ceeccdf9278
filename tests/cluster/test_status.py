"""The table of ranks."""

from __future__ import annotations

import io
from typing import Any

import pytest

from envlab.distributed.program import guarded
from envlab_cluster.hosts import Host
from envlab_cluster.report import HostReport, Load, loads
from envlab_cluster.ssh import Answer
from envlab_cluster.status import compose_status, cut
from tests.cluster.runs import run_on

A, B = (Host(name=name, address=name) for name in "ab")


def report(**changes: Any) -> HostReport:
    values = {"alive": True, "exit_code": None, "last_line": "", "ranks": {}, "lines": {}}
    return HostReport(**{**values, **changes})


def heartbeat(rank: int, pid: int) -> dict[str, Any]:
    progress = {"phase": "learn", "iteration": 7, "seconds_since_progress": 0.1}
    return {"rank": rank, "pid": pid, **progress}


def rows(text: str) -> list[list[str]]:
    return [line.split()[:5] for line in text.splitlines() if line.startswith(("a ", "b "))]


LOADS = [Load(pid=20, cpu=0.5, memory_mb=9), Load(pid=10, cpu=0.5, memory_mb=9)]
BEATS = {"ranks": [heartbeat(0, 20), heartbeat(1, 10)]}


def test_a_rank_is_where_it_runs_though_another_host_was_to_have_it():
    # Hosts that share an address, like containers of one machine: torch may swap their ranks.
    swapped = {A: report(ranks={1: LOADS[1]}), B: report(ranks={0: LOADS[0]}, heartbeats=BEATS)}
    assert rows(compose_status(run_on(A, B), swapped)) == [
        *(["a", "1", "running", "learn", "7"], ["b", "0", "running", "learn", "7"])
    ]


def test_a_rank_that_died_is_gone_from_where_it_was():
    running = report(ranks={0: LOADS[0]}, heartbeats=BEATS)
    text = compose_status(run_on(A, B), {A: running, B: report()})
    assert [row[:3] for row in rows(text)] == [["a", "0", "running"], ["b", "1", "gone"]]


def test_the_last_beat_of_a_rank_that_ended_well_is_not_shown():
    run = run_on(A)
    run.nodes[0].exit_code = 0
    ended = report(alive=False, exit_code=0, heartbeats={"ranks": [heartbeat(0, 20)]})
    (row,) = rows(compose_status(run, {A: ended}))
    assert row == ["a", "0", "ended", "0"]  # its exit code


def test_a_rank_that_died_before_its_first_beat_is_quoted():
    lines = {0: "", 1: "error: no such override"}
    ended = report(alive=False, exit_code=1, last_line="=====", lines=lines)
    assert compose_status(run_on(A), {A: ended}).endswith("error: no such override")


def test_a_line_belongs_to_its_rank_even_if_a_lower_one_is_missing():
    run = run_on(A)
    run.nodes[0].first_rank, run.nodes[0].num_processes = 4, 2
    lines = {0: "of rank 4", 1: "of rank 5"}
    text = compose_status(run, {A: report(ranks={5: LOADS[0]}, lines=lines)})
    assert text.endswith("of rank 5")
    # If torch gives a host another node's ranks, the lowest of them is the first.
    text = compose_status(run, {A: report(ranks={2: LOADS[0]}, lines={0: "of rank 2"})})
    assert text.endswith("of rank 2")


def test_a_rank_is_the_oldest_of_its_processes_and_not_the_lowest_number():
    def stat(used: int, began: int, pages: int) -> str:
        return f"S 1 1 1 0 -1 0 0 0 0 0 {used} 0 0 0 20 0 1 0 {began} 0 {pages} 0"

    lines = ["hertz=100", "page_kb=4"]
    for now, used in ((1.0, 0), (1.5, 25)):
        lines += [f"process={now} 7 0 {stat(0, 200, 1)}"]
        lines += [f"process={now} 4194300 0 {stat(used, 100, 512)}"]
    assert loads(Answer("\n".join(lines))) == {0: Load(pid=4194300, cpu=0.5, memory_mb=2)}


def test_letters_that_a_terminal_cannot_show_are_no_failure(monkeypatch: pytest.MonkeyPatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1"))
    assert guarded(lambda words: print(cut("x" * 100), flush=True) or 0, []) == 0
    assert written.getvalue() == b"x" * 59 + b"?\n"
