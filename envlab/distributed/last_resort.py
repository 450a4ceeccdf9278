"""The last resort: ends a process stuck in native code when no other process can.

While native code holds the interpreter, only the kernel can do it, by a timer that is reset as long
as all is well. Its signal only starts the alarm that ends the process. When a suspended process
(``scontrol suspend``, SIGSTOP) continues, its timer has run out, and the alarm leaves time to reset
it.
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
"""The errors that faulthandler raises if standard error is no file."""


def arm(seconds: float) -> None:
    """Make the process print its stacks and end 16 s after ``seconds``, unless called again.

    A process with its own handler for SIGALRM only prints its stacks.
    """
    set_timer = _timer(os.getpid())
    if set_timer is None or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        with contextlib.suppress(*NO_STDERR):
            faulthandler.dump_traceback_later(seconds, exit=False)
        return
    signal.alarm(0)
    with contextlib.suppress(*NO_STDERR):
        # Only at the end, as reading the stacks of threads that run Python can crash the process.
        faulthandler.register(signal.SIGALRM, chain=True)
    set_timer(seconds)


def disarm() -> None:
    """Cancel the timer and the alarm."""
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
    """Return a function that sets this process's timer (0 s: never), or None without one.

    A forked process has none of its parent's timers, hence ``pid``. When the timer runs out, the
    signal's handler is ``alarm``, which is safe in a handler: its argument, in seconds, is the
    signal's number. Linux itself never sends SIGSTKFLT, 16.
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
