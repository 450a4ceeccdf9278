"""One writer per run directory: a lock that rank 0 holds for as long as its process lives.

Two launches with the same ``--run_id`` may overlap. Both would write their records into one
``metrics.jsonl``, and remove each other's checkpoints.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from pathlib import Path

from filelock import FileLock, Timeout

from envlab.distributed.disk import surviving_disk_errors
from envlab.distributed.interface import process_space
from envlab.errors import RunDirectoryError

logger = logging.getLogger(__name__)

LOCK = "lock"
PATIENCE_S = 15.0
"""How long a holder on another machine is watched; its ``heartbeats.json`` changes every 5 s."""
POLL_S = 0.2


def hold_lock(directory: Path) -> FileLock | None:
    """Hold a run directory's lock until the returned lock is released or this process ends.

    It is flock(2), which children do not keep (filelock 4 closes it in forked ones), and which
    Linux passes on to an NFS server. A server may keep it for a machine that was lost, so a holder
    on another machine must also give a sign of life.

    Args:
        directory: The run directory.

    Returns:
        The lock; None if there can be none, in which case the run continues without one.

    Raises:
        RunDirectoryError: If another process holds it, and lives.
    """
    path = directory / LOCK
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        _check_not_alive(directory, path.read_text(errors="replace").splitlines())
        return None
    except OSError:  # no locks here, or read-only, gone or full, as the next write will report
        return None
    with surviving_disk_errors(path):
        path.write_text(f"{socket.gethostname()}\n{os.getpid()}\n{process_space()}\n")
    return lock


def _check_not_alive(directory: Path, holder: list[str]) -> None:
    """Raise if the holder lives. One on this machine does, or the lock would be free.

    Args:
        directory: The run directory.
        holder: Host, process id and process space of the holder, as far as it could write them.
    """
    known = len(holder) == 3
    name = f"host {holder[0]}, pid {holder[1]}" if known else "its process is not known"
    if (known and holder[2] == process_space()) or _is_beating(directory):
        raise RunDirectoryError(
            f"The run {directory} is being written by another launch ({name}). Wait for it or end "
            "it first, or give this one another --run_id."
        )
    logger.warning(
        "The lock %s is held (%s), but its holder gave no sign of life for %.0f s: continuing.",
        directory / LOCK,
        name,
        PATIENCE_S,
    )


def _is_beating(directory: Path) -> bool:
    before = _heartbeats(directory)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if _heartbeats(directory) != before:
            return True
        time.sleep(POLL_S)
    return False


def _heartbeats(directory: Path) -> bytes | None:
    try:
        return (directory / "heartbeats.json").read_bytes()
    except OSError:
        return None
