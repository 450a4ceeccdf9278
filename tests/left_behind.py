"""Processes that tests leave running, found by a mark that all processes they start inherit.

The mark is set after this process began, so it is in the initial environment of the tests'
processes and not of pytest itself, see :mod:`tests.marked`. A command that another user's daemon
starts, such as one over ssh, does not bear it; the clusters of tests/cluster use their own mark.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator

import psutil

from tests.marked import marked

_NAME = "ENVLAB_TEST_SESSION"
GRACE_S = 5.0  # a killed process vanishes within milliseconds, later on a loaded machine
_OF_PYTHON = "multiprocessing.resource_tracker"  # one a process, ends with it


def mark() -> None:
    """Mark all processes that this one starts from now on."""
    os.environ[_NAME] = uuid.uuid4().hex


def started(among: Iterable[int] | None = None) -> set[psutil.Process]:
    """Return the living processes that bear the mark, of all or among some process ids."""
    found = set()
    for pid in marked(_NAME, os.environ[_NAME], among):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(pid))
    return found


def _left(before: set[int]) -> dict[int, str]:
    """Return the command lines of new marked processes without a marked ancestor from before.

    The parent of an orphan is process 1, or its stand-in. Most tests start nothing, and then no
    process id is new: reading the environments of all processes before and after each test cost
    the suite a minute.
    """
    new = started(set(psutil.pids()) - before)
    if not new:
        return {}
    owners = started(before)
    lines = {}
    for process in new:
        with contextlib.suppress(psutil.NoSuchProcess):
            if owners.isdisjoint(process.parents()):
                lines[process.pid] = " ".join(process.cmdline())
    return {pid: line for pid, line in lines.items() if _OF_PYTHON not in line}


@contextlib.contextmanager
def none_left_behind() -> Iterator[None]:
    """Fail if processes that were started inside still run soon after it."""
    before = set(psutil.pids())
    yield
    end = time.monotonic() + GRACE_S
    while left := _left(before):
        if time.monotonic() > end:
            lines = [f"{pid}: {words}" for pid, words in left.items()]
            raise AssertionError("processes were left behind:\n" + "\n".join(lines))
        time.sleep(0.05)
