"""The check that every test ends with: no process of it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from envlab.distributed.processes import stat_fields
from tests import left_behind
from tests.left_behind import none_left_behind

CHILD_OF_A_CHILD = "read go; sh -c 'sleep 96; true'; true"  # a shell replaces itself with the last


def test_a_process_that_goes_on_is_found_and_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(left_behind, "_GRACE_S", 0.1)
    check = none_left_behind()
    check.__enter__()
    with subprocess.Popen(["sleep", "97"], start_new_session=True) as process:
        with pytest.raises(AssertionError, match=rf"left behind:\n{process.pid}: sleep 97"):
            check.__exit__(None, None, None)
        process.kill()


def test_a_process_that_has_ended_or_was_there_before_is_not_counted():
    with subprocess.Popen(["sleep", "98"]) as process:
        with none_left_behind():
            subprocess.run(["true"], check=True)
        process.kill()


def test_what_a_process_starts_that_was_there_before_is_counted_only_without_it(
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
            descendants = _descendants(process.pid, 2)
        process.kill()
    with pytest.raises(AssertionError) as raised:
        check.__exit__(None, None, None)
    for pid in descendants:
        assert f"\n{pid}: " in str(raised.value)
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int, count: int) -> list[int]:
    """Wait until a process has a child, which has one, and so on; return them."""
    deadline = time.monotonic() + 30.0
    found = [pid]
    while len(found) <= count:
        found += [child for child in left_behind._started() if _parent(child) == found[-1]]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[1:]


def _parent(pid: int) -> int | None:
    fields = stat_fields(pid)
    return None if fields is None else int(fields[1])
