"""What tests leave running, told by a mark that every process they start inherits.

The mark is set after this process began, so it is in the first environment of what the tests start
and not of pytest itself, see :mod:`tests.marked`. What another user's daemon starts, as a command
that came over ssh, does not bear it; the clusters of tests/cluster find theirs by a mark of their
own.
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
_GRACE_S = 5.0  # a process that was killed goes within milliseconds, on a loaded machine later
_OF_PYTHON = "multiprocessing.resource_tracker"  # one a process, ends with it


def mark() -> None:
    """Have all that this process starts from now on bear its mark."""
    os.environ[_NAME] = uuid.uuid4().hex


def started(among: Iterable[int] | None = None) -> set[psutil.Process]:
    """Return the living processes that bear the mark, of all or among those with some numbers."""
    found = set()
    for pid in marked(_NAME, os.environ[_NAME], among):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(psutil.Process(pid))
    return found


def _left(before: set[int]) -> dict[int, str]:
    """Return the command lines of marked processes that do not belong to those there before.

    A process that was left alone has no marked one of those as ancestor: its parent is process 1,
    or who stands for it. Most tests start nothing, and then no number is new: to read the
    environments of all processes before and after each test took the suite a minute.
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
    """Fail if processes that were started inside are still there soon after it."""
    before = set(psutil.pids())
    yield
    end = time.monotonic() + _GRACE_S
    while left := _left(before):
        if time.monotonic() > end:
            lines = [f"{pid}: {words}" for pid, words in left.items()]
            raise AssertionError("processes were left behind:\n" + "\n".join(lines))
        time.sleep(0.05)
