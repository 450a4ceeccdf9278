"""Processes on this machine: whether another one lives, and what this one's threads do."""

from __future__ import annotations

import sys
import threading
import traceback
from types import FrameType

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


OWN_THREADS = "watchdog"
"""Prefix of the names of the watchdog's threads."""
_BACKWARD = "_engine_run_backward"
GRADIENTS = "backward pass"
"""Where DistributedDataParallel averages gradients, in native code below autograd's engine."""


def awaited(frame: FrameType | None) -> str:
    """Return the collective of torch that a thread is in, ``""`` if in none.

    Args:
        frame: The thread's innermost frame.

    Returns:
        The called function of ``torch.distributed``, such as ``all_reduce``, or :data:`GRADIENTS`.
    """
    name = ""
    while frame is not None:
        file, function = frame.f_code.co_filename.replace("\\", "/"), frame.f_code.co_name
        if file.endswith("torch/distributed/distributed_c10d.py"):
            name = function  # the outermost frame is the called function
        elif function == _BACKWARD and file.endswith("torch/autograd/graph.py"):
            return GRADIENTS
        frame = frame.f_back
    return name


def in_debugger(frame: FrameType | None) -> bool:
    """Return whether a thread is stopped in Python's debugger."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(("/pdb.py", "/bdb.py")):
            return True
        frame = frame.f_back
    return False


def all_stacks() -> str:
    """Return the Python stacks of this process's threads, the main thread's first.

    The watchdog's own threads are omitted.
    """
    frames, main = sys._current_frames(), threading.main_thread()
    others = [thread for thread in threading.enumerate() if thread is not main]
    threads = [main, *(thread for thread in others if not thread.name.startswith(OWN_THREADS))]
    return "\n".join(
        _format(thread.name, frames[thread.ident])
        for thread in threads
        if thread.ident is not None and thread.ident in frames
    )


def main_stack(text: str) -> str:
    """Return the main thread's part of the text of :func:`all_stacks`."""
    return text.partition("\n\n")[0]


def _format(name: str, frame: FrameType) -> str:
    lines = "".join(traceback.format_stack(frame)).rstrip()
    return f"Thread {name} (innermost call last):\n{lines}\n"
