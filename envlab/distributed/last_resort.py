"""The last resort: ends a process whose interpreter native code holds, where no other process can.

Without the interpreter only the kernel can do it, by a timer that is set anew as long as all is
well. Its first signal only sets it once more, and the second one ends the process: when a process
goes on that was suspended (``scontrol suspend``, SIGSTOP), its timer has run out, and whoever sets
it anew has the time between the two signals to do so.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import signal

NO_STDERR = (RuntimeError, ValueError, OSError)
"""What faulthandler raises where standard error is no file."""


def arm(seconds: float) -> None:
    """Have the process print its stacks in ``seconds``, and end 14 s later, unless called again.

    A process that uses SIGALRM for something of its own, by a handler, only prints its stacks.
    """
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and _once_alarm(signal.SIGALRM):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    with contextlib.suppress(*NO_STDERR):
        faulthandler.dump_traceback_later(seconds, exit=False)


def disarm() -> None:
    """Let the process live."""
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    faulthandler.cancel_dump_traceback_later()


def _once_alarm(number: signal.Signals) -> bool:
    """Have the next signal set the timer anew, and a later one end us; False: the system cannot.

    Python's own handlers know nothing of "once", which is System V's way; see sysv_signal(3), and
    need the interpreter. What the kernel calls is ``alarm``, which is safe in a handler: its
    argument, in seconds, is the signal's number, 14 for SIGALRM.
    """
    libc = ctypes.CDLL(None)
    set_handler = getattr(libc, "sysv_signal", None)  # glibc's alone
    if set_handler is None:
        return False
    set_handler.argtypes, set_handler.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_handler(number, ctypes.cast(libc.alarm, ctypes.c_void_p))
    signal.siginterrupt(number, False)  # and interrupt no system call
    return True
