"""Processes that bear a variable in the environment they began with, which children inherit.

It is /proc/<pid>/environ, see proc(5), which lacks the variables that a process sets later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

_ENV_END = 51 - 3
"""Index into proc(5)'s fields of /proc/<pid>/stat, counted from the third, the state."""


def marked(name: str, value: str, among: Iterable[int] | None = None) -> dict[int, list[str]]:
    """Return the living processes whose variable has a value, and all variables of each.

    Args:
        name: Name of the variable.
        value: Its value.
        among: Process ids to look at; None: all.
    """
    found: dict[int, list[str]] = {}
    for pid in psutil.pids() if among is None else among:
        variables = _variables(Path(f"/proc/{pid}"))
        if f"{name}={value}" in variables:
            found[pid] = variables
    return found


def _variables(process: Path) -> list[str]:
    """Return a process's initial variables, none if it has ended or is another user's.

    ``subprocess.Popen`` returns when the kernel has dropped the old program but not yet
    published the new one's variables. Loaded machines show this moment, so it is waited for.
    """
    end = time.monotonic() + 5.0
    while True:
        try:
            text = (process / "environ").read_text(errors="replace")
        except OSError:
            return []
        if text or not _begins(process) or time.monotonic() > end:
            return text.split("\0")
        time.sleep(0.001)


def _begins(process: Path) -> bool:
    """Return whether a process is in the middle of execve(2); kernel threads never are."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and fields[_ENV_END] == "0" and os.path.exists(process / "exe")


def still_marked(name: str, value: str, grace_s: float = 5.0) -> dict[int, list[str]]:
    """Return those still alive after a grace period for killed and exiting processes."""
    end = time.monotonic() + grace_s
    while (found := marked(name, value)) and time.monotonic() < end:
        time.sleep(0.05)
    return found
