"""Other processes of this machine, as /proc tells of them. It imports no torch."""

from __future__ import annotations

import os
from pathlib import Path


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the state on, None if it is gone; see proc(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def start_time(pid: int) -> str | None:
    """Return when a running process started, in clock ticks since boot; None if it has ended.

    With its number it tells a process from a later one that got the same number.
    """
    stat = stat_fields(pid)
    return None if stat is None or stat[0] == "Z" else stat[19]


def ancestors(count: int) -> list[int]:
    """Return up to ``count`` ancestors of this process, its parent first."""
    found: list[int] = []
    pid = os.getppid()
    while pid > 1 and len(found) < count:
        found.append(pid)
        fields = stat_fields(pid)
        pid = 0 if fields is None else int(fields[1])
    return found


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line, none if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
