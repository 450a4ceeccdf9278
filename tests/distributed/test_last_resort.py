"""The kernel ends a process that cannot end itself; a suspended one continues."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

from envlab.distributed import last_resort
from tests.launcher import ROOT

SOURCE = """
import ctypes, os, sys, threading, time
from envlab.distributed import last_resort

def watch():
    while True:
        last_resort.arm(0.6)
        print("armed", flush=True)
        time.sleep(0.1)

threading.Thread(target=watch, daemon=True).start()
if sys.argv[1] == "held":
    time.sleep(0.3)
    # native code that lets no other thread run, and that never ends
    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
sys.stdin.readline()
time.sleep(0.3) # a process that resets its timer, again
"""
NUM_SUSPENDED = 3


def start(how: str) -> subprocess.Popen[str]:
    """Start a process that re-arms its timer, of 0.6 s plus 16 s, every 0.1 s."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", SOURCE, how], text=True, cwd=ROOT, **pipes)


def test_a_held_process_shows_its_stacks_and_ends_and_one_suspended_for_long_continues():
    """It resumes with an expired timer, before it can re-arm it."""
    held, *suspended = (start(how) for how in ["held", *["suspended"] * NUM_SUSPENDED])
    try:
        for process in (held, *suspended):
            assert process.stdout.readline() == "armed\n"
        for process in suspended:
            process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # the first signal is due by then
        for process in suspended:
            process.send_signal(signal.SIGCONT)
            _, errors = process.communicate("\n", timeout=60)
            assert process.returncode == 0, errors
        _, errors = held.communicate(timeout=60)
        assert held.returncode == -signal.SIGALRM
        assert re.search(r'File "<string>", line \d+ in <module>', errors)
    finally:
        for process in (held, *suspended):
            process.kill()
            process.wait(10)


def test_a_handler_of_the_users_own_is_left_alone():
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        last_resort.arm(7.0)
        assert not 6.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 7.0
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    finally:
        last_resort.disarm()
        signal.signal(signal.SIGALRM, before)
