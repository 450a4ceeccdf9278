"""The last resort: ends a process whose interpreter native code holds, where no other process can.

Without the interpreter only the kernel can do it, by a timer that is set anew as long as all is
well. Its signal only starts the alarm that ends the process: when a process goes on that was
suspended (``scontrol suspend``, SIGSTOP), its timer has run out, and whoever sets it anew has the
time of the alarm to do so.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import os
import signal
import time
from collections.abc import Callable

NO_STDERR = (RuntimeError, ValueError, OSError)
"""What faulthandler raises where standard error is no file."""


def arm(seconds: float) -> None:
    """Have the process print its stacks and end 16 s after ``seconds``, unless called again.

    A process that uses SIGALRM for something of its own, by a handler, only prints its stacks.
    """
    set_timer = _timer(os.getpid())
    if set_timer is None or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        with contextlib.suppress(*NO_STDERR):
            faulthandler.dump_traceback_later(seconds, exit=False)
        return
    signal.alarm(0)
    with contextlib.suppress(*NO_STDERR):
        # Only then: to read the stacks of threads that run Python can crash the process.
        faulthandler.register(signal.SIGALRM, chain=True)
    set_timer(seconds)


def disarm() -> None:
    """Let the process live."""
    faulthandler.cancel_dump_traceback_later()
    set_timer = _timer(os.getpid())
    if set_timer is not None and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        set_timer(0.0)
        signal.alarm(0)
        faulthandler.unregister(signal.SIGALRM)


class _SigEvent(ctypes.Structure):
    """``struct sigevent`` of Linux, see sigevent(7)."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("unused", ctypes.c_char * 48),
    )


class _TimerSpec(ctypes.Structure):
    """``struct itimerspec``: seconds and nanoseconds of the interval, and of the first time."""

    _fields_ = tuple(
        (name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")
    )


@functools.cache
def _timer(pid: int) -> Callable[[float], None] | None:
    """Return what sets this process's timer, 0 s for never; None: the system has none.

    A fork has none of its parent's, hence ``pid``. What the kernel calls when the timer runs out
    is ``alarm``, which is safe in a handler: its argument, in seconds, is the signal's number.
    SIGSTKFLT, 16, is one that Linux itself never sends.
    """
    libc, number = ctypes.CDLL(None), getattr(signal, "SIGSTKFLT", None)
    if number is None or signal.getsignal(number) is not signal.SIG_DFL:
        return None
    timer = ctypes.c_void_p()
    event = _SigEvent(number=number)
    create = getattr(libc, "timer_create", None)  # in the C library from glibc 2.34 on
    if create is None or create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
        return None
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(number, ctypes.cast(libc.alarm, ctypes.c_void_p))

    def set_timer(seconds: float) -> None:
        spec = _TimerSpec(first_s=int(seconds), first_ns=int(seconds % 1 * 1e9))
        libc.timer_settime(timer, 0, ctypes.byref(spec), None)

    return set_timer
