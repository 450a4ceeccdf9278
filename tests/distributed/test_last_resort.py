"""The kernel ends a process that cannot end itself; a suspended one continues."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlab.distributed import last_resort

SOURCE = """
import ctypes, os, sys, threading, time
from envlab.distributed import last_resort

def watch():
    while True:
        last_resort.arm(0.6)
        print("armed", flush=True)
        time.sleep(0.1)

threading.Thread(target=watch, daemon=True).start()
if sys.argv[1] == "held":
    time.sleep(0.3)
    # native code that lets no other thread run, and that never ends
    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
sys.stdin.readline()
time.sleep(0.3)  # a process that sets its timer anew, again
"""
NUM_SUSPENDED = 3


class Job:
    """A process that re-arms its timer, of 0.6 s plus 16 s, every 0.1 s."""

    def __init__(self, how: str, folder: Path) -> None:
        self._errors = folder / "errors.txt"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SOURCE, how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[2],
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Job]]:
    """A process whose interpreter was held, and others that were suspended, after their ends."""
    kinds = ["held", *["suspended"] * NUM_SUSPENDED]
    jobs = [Job(kind, tmp_path_factory.mktemp(kind)) for kind in kinds]
    try:
        for job in jobs:
            assert job.process.stdout is not None
            assert job.process.stdout.readline() == b"armed\n"
        for job in jobs[1:]:
            os.kill(job.process.pid, signal.SIGSTOP)
        time.sleep(1.5)  # the first signal is due by then
        for job in jobs[1:]:
            os.kill(job.process.pid, signal.SIGCONT)
            assert job.process.stdin is not None
            job.process.stdin.write(b"\n")
            job.process.stdin.flush()
        for job in jobs:
            job.process.communicate(timeout=60)
        yield jobs
    finally:
        for job in jobs:
            job.process.kill()
            job.process.wait(10)


def test_a_process_whose_interpreter_is_held_shows_its_stacks_and_ends(ended: list[Job]):
    assert ended[0].process.returncode == -signal.SIGALRM
    assert re.search(r'File "<string>", line \d+ in <module>', ended[0].errors)


def test_a_process_that_was_suspended_for_long_continues(ended: list[Job]):
    """It resumes with an expired timer, before it can re-arm it."""
    codes = [job.process.returncode for job in ended[1:]]
    assert codes == [0] * NUM_SUSPENDED, ended[1].errors


def test_a_handler_of_the_users_own_is_left_alone():
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        last_resort.arm(7.0)
        assert not 6.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 7.0
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    finally:
        last_resort.disarm()
        signal.signal(signal.SIGALRM, before)
