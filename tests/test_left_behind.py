"""The check at the end of every test: none of its processes still runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import psutil
import pytest

from tests import left_behind
from tests.left_behind import none_left_behind, started

CHILD_OF_A_CHILD = "read go; sh -c 'sleep 16; true'; true"  # a shell replaces itself with the last


def test_a_process_that_still_runs_is_found_and_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(left_behind, "_GRACE_S", 0.1)
    check = none_left_behind()
    check.__enter__()
    with subprocess.Popen(["sleep", "17"], start_new_session=True) as process:
        _wait_for("sleep", process.pid)
        with pytest.raises(AssertionError, match=rf"left behind:\n{process.pid}: sleep 17"):
            check.__exit__(None, None, None)
        process.kill()


def test_a_process_that_has_ended_or_was_there_before_is_not_counted():
    with subprocess.Popen(["sleep", "18"]) as process:
        with none_left_behind():
            subprocess.run(["true"], check=True)
        process.kill()


def test_children_of_an_earlier_process_are_counted_only_once_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(left_behind, "_GRACE_S", 0.1)
    check = none_left_behind()
    with subprocess.Popen(["sh", "-c", CHILD_OF_A_CHILD], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with none_left_behind():
            check.__enter__()
            process.stdin.write(b"\n")
            process.stdin.flush()
            descendants = _wait_for("sleep", process.pid)
            assert len(descendants) == 2
        process.kill()
    with pytest.raises(AssertionError) as raised:
        check.__exit__(None, None, None)
    for pid in descendants:
        assert f"\n{pid}: " in str(raised.value)
        os.kill(pid, signal.SIGKILL)


def _wait_for(program: str, ancestor: int) -> list[int]:
    """Wait until a process or a descendant runs a program; return the descendants.

    Popen returns as soon as its child execs, when the child has no environment to show yet.
    """
    deadline = time.monotonic() + 30.0
    while True:
        for process in started():
            with contextlib.suppress(psutil.Error):
                lineage = [process.pid, *(parent.pid for parent in process.parents())]
                if ancestor in lineage and process.cmdline()[:1] == [program]:
                    return lineage[: lineage.index(ancestor)]
        assert time.monotonic() < deadline
        time.sleep(0.01)
