"""Processes that bear a variable in the environment they began with, which children inherit.

It is /proc/<pid>/environ, see proc(5): what a process sets later in its own is not in there.
"""

from __future__ import annotations

import time
from pathlib import Path

from envlab.distributed.processes import start_time


def marked(name: str, value: str) -> dict[int, list[str]]:
    """Return the living processes with a variable of a value, and all variables of each."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_text(errors="replace").split("\0")
        except OSError:  # another user's, or gone
            continue
        if f"{name}={value}" in variables and start_time(int(entry.name)) is not None:
            found[int(entry.name)] = variables
    return found


def still_marked(name: str, value: str, grace_s: float = 5.0) -> dict[int, list[str]]:
    """Return those that live on, after what processes need that were killed or are leaving."""
    end = time.monotonic() + grace_s
    while (found := marked(name, value)) and time.monotonic() < end:
        time.sleep(0.05)
    return found
