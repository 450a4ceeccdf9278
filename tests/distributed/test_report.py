"""The watchdog's report, its heartbeats, and stacks."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
from pathlib import Path

from envlab.distributed.diagnosis import Diagnosis
from envlab.distributed.processes import all_stacks, awaited, in_debugger, main_stack
from envlab.distributed.report import HeartbeatFile, compose_report
from tests.disk import no_file_beyond
from tests.distributed.test_diagnosis import seen, waiting

STACKS = {0: "Thread MainThread\n  waits\n\nThread other\n", 1: "Thread MainThread\n  sleeps\n"}


def test_the_report_has_the_guilty_ranks_stacks_and_the_main_thread_of_one_that_waits():
    ranks = {0: waiting(0), 1: seen(1, idle_s=61.0), 2: waiting(2)}
    verdict = Diagnosis(kind="stalled", guilty={1: "has made no progress for 61 s"})
    text = compose_report(verdict, ranks, STACKS)
    assert text.startswith("error: Rank 1 (host node-1, pid 101) has made no progress for 61 s in ")
    assert "\n-> rank 1   collect of iteration 7, no progress for 61.0 s, host node-1" in text
    assert "\n   rank 0   reduce (gather, in iteration) of iteration 7, " in text
    assert "sleeps" in text
    assert "waits" in text
    assert "Thread other" not in text
    assert "Thread other" in compose_report(verdict, ranks, STACKS, full=True)


def test_on_gpus_the_report_says_which_settings_of_nccl_have_helped():
    verdict = Diagnosis(kind="stalled", guilty={0: "has made no progress for 61 s"})
    on_gpu = seen(0, idle_s=61.0)
    assert "NCCL_P2P_DISABLE=1" not in compose_report(verdict, {0: on_gpu}, {})
    heartbeat = dataclasses.replace(on_gpu.heartbeat, device="cuda:0")
    text = compose_report(verdict, {0: dataclasses.replace(on_gpu, heartbeat=heartbeat)}, {})
    assert "NCCL_P2P_DISABLE=1" in text


def test_a_report_of_many_ranks_names_those_to_blame():
    ranks = {rank: waiting(rank) for rank in range(999)} | {999: seen(999, idle_s=61.0)}
    verdict = Diagnosis(kind="stalled", guilty={999: "has made no progress for 61 s"})
    text = compose_report(verdict, ranks, {})
    assert "-> rank 999" in text
    assert "and 984 more" in text
    assert text.count("\n") < 30


def test_a_stopped_rank_is_reported_without_stacks():
    ranks = {0: waiting(0), 1: seen(1, process="stopped", silent_s=11.0)}
    verdict = Diagnosis(kind="lost", guilty={1: "is stopped (by SIGSTOP)"})
    text = compose_report(verdict, ranks, {0: STACKS[0]})
    assert "Stacks of rank 1:\nnone: its process does not answer." in text
    assert "is stopped (by SIGSTOP), last seen 11 s ago in collect of iteration 7." in text


def test_heartbeats_hold_each_ranks_phase(tmp_path: Path):
    HeartbeatFile(timeout_s=120.0).write(tmp_path, {1: seen(1), 0: waiting(0, 2.0)})
    values = json.loads((tmp_path / "heartbeats.json").read_text())
    assert [one["rank"] for one in values["ranks"]] == [0, 1]
    first = values["ranks"][0]
    names = ("phase", "iteration", "seconds_since_progress")
    assert [first[name] for name in names] == ["reduce", 7, 2.0]
    assert [path.name for path in tmp_path.iterdir()] == ["heartbeats.json"]


def test_heartbeats_that_cannot_be_written_end_nothing_and_are_logged_once(tmp_path: Path, caplog):
    file = HeartbeatFile(timeout_s=120.0)
    file.write(tmp_path, {0: seen(0)})
    before = (tmp_path / "heartbeats.json").read_text()
    for _ in range(2):  # the second time, it is full once more
        with no_file_beyond(10):
            for _ in range(3):
                file.write(tmp_path, {0: seen(0), 1: seen(1)})
        assert [path.name for path in tmp_path.iterdir()] == ["heartbeats.json"]
        assert (tmp_path / "heartbeats.json").read_text() == before
        for _ in range(3):
            file.write(tmp_path, {0: seen(0)})
        full, again = caplog.messages
        caplog.clear()
        assert "heartbeats.json cannot be written (File too large; " in full
        assert "heartbeats.json is written again" in again
        before = (tmp_path / "heartbeats.json").read_text()
    file.write(tmp_path / "absent", {0: seen(0)})


def frame_in(file: str, function: str) -> object:
    """Return a frame of a function defined in a file of this name."""
    names: dict[str, object] = {"sys": sys}
    exec(compile(f"def {function}(): return sys._getframe()", file, "exec"), names)
    return names[function]()  # type: ignore[operator]


def test_the_wait_of_a_thread_and_a_debugger_are_read_off_its_stack():
    for file, function, expected in [
        ("/x/torch/distributed/distributed_c10d.py", "all_reduce", "all_reduce"),
        ("/x/torch/autograd/graph.py", "_engine_run_backward", "backward pass"),
        ("/x/rsl_rl/algorithms/ppo.py", "update", ""),
    ]:
        assert awaited(frame_in(file, function)) == expected  # type: ignore[arg-type]
    # A debugger is no stall.
    assert in_debugger(frame_in("/lib/python3.11/pdb.py", "interaction"))  # type: ignore[arg-type]
    assert not in_debugger(sys._getframe())


def test_stacks_show_the_main_thread_first_and_not_the_watchdog():
    done = threading.Event()
    for name in ("loader", "watchdog exchange"):
        threading.Thread(target=done.wait, name=name, daemon=True).start()
    try:
        text = all_stacks()
    finally:
        done.set()
    assert text.startswith("Thread MainThread")
    assert "Thread loader" in text
    assert "watchdog exchange" not in text
    assert "Thread loader" not in main_stack(text)
