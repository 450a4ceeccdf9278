"""The check at the end of every test: none of its processes still runs."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests import left_behind
from tests.left_behind import none_left_behind, started


def test_a_process_that_still_runs_is_found_and_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(left_behind, "GRACE_S", 0.1)
    check = none_left_behind()
    check.__enter__()
    with subprocess.Popen(["sleep", "17"], start_new_session=True) as process:
        while process.pid not in {one.pid for one in started()}:
            time.sleep(0.01)  # it has no environment to show yet
        with pytest.raises(AssertionError, match=rf"left behind:\n{process.pid}: sleep 17"):
            check.__exit__(None, None, None)
        process.kill()


def test_a_process_that_has_ended_or_was_there_before_is_not_counted():
    with subprocess.Popen(["sleep", "18"]) as process:
        with none_left_behind():
            subprocess.run(["true"], check=True)
        process.kill()
