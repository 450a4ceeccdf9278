"""Whether another process on this machine lives. Imports no torch."""

from __future__ import annotations

import psutil


def state_of(process: psutil.Process) -> str:
    """Return ``running``, ``stopped`` or ``gone``.

    A zombie counts as gone, and a process under a debugger as running. psutil distinguishes it
    from a later one with the same id by its start time.
    """
    try:
        status = process.status() if process.is_running() else psutil.STATUS_DEAD
    except psutil.Error:
        return "gone"
    if status in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE):
        return "gone"
    return "stopped" if status == psutil.STATUS_STOPPED else "running"
