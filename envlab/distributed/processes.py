"""Whether another process of this machine lives. It imports no torch."""

from __future__ import annotations

import psutil


def state_of(process: psutil.Process) -> str:
    """Return ``running``, ``stopped`` or ``gone``.

    One that has ended and waits to be collected is gone, and one under a debugger is running.
    psutil tells a process from a later one with the same number by when it started.
    """
    try:
        status = process.status() if process.is_running() else psutil.STATUS_DEAD
    except psutil.Error:
        return "gone"
    if status in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE):
        return "gone"
    return "stopped" if status == psutil.STATUS_STOPPED else "running"
