"""Processes that bear a variable in the environment they began with, which children inherit.

It is /proc/<pid>/environ, see proc(5): what a process sets later in its own is not in there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

_ENV_END = 51 - 3
"""Of proc(5)'s fields of /proc/<pid>/stat, which are counted from the state, the third, here."""


def marked(name: str, value: str, among: Iterable[int] | None = None) -> dict[int, list[str]]:
    """Return the living processes with a variable of a value, and all variables of each.

    Args:
        name: The variable's.
        value: What it is.
        among: The numbers of the processes to look at; None: all there are.
    """
    found: dict[int, list[str]] = {}
    for pid in psutil.pids() if among is None else among:
        variables = _variables(Path(f"/proc/{pid}"))
        if f"{name}={value}" in variables:
            found[pid] = variables
    return found


def _variables(process: Path) -> list[str]:
    """Return what a process began with, none where it has ended or is another user's.

    ``subprocess.Popen`` returns when the kernel has dropped the old program and not yet told where
    the new one's variables are. On a loaded machine that can be seen, so it is waited for.
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
    """Tell whether a process is in the middle of execve(2); threads of the kernel never are."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and fields[_ENV_END] == "0" and os.path.exists(process / "exe")


def still_marked(name: str, value: str, grace_s: float = 5.0) -> dict[int, list[str]]:
    """Return those that live on, after what processes need that were killed or are leaving."""
    end = time.monotonic() + grace_s
    while (found := marked(name, value)) and time.monotonic() < end:
        time.sleep(0.05)
    return found
