"""train.py, but rank 0 takes seconds to close its curves, as a service on the network may."""

from __future__ import annotations

import os
import time

import psutil

from envlab.training.launch import train
from envlab.training.loop import Training

DEADLINE_S = 6.0
LONGER_S = 1.0
"""For torchrun to notice that the other rank has exited, and to send SIGTERM to this one."""


def others_run() -> bool:
    """Return whether another rank of the launcher still runs."""
    ranks = psutil.Process(os.getppid()).children()
    others = [rank for rank in ranks if rank.pid != os.getpid()]
    return any(rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE for rank in others)


def slow_close(training: Training) -> None:
    if os.environ["RANK"] == "0":
        end = time.monotonic() + DEADLINE_S
        while others_run() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(LONGER_S)
    close(training)


if __name__ == "__main__":
    close, Training.close = Training.close, slow_close  # type: ignore[method-assign]
    raise SystemExit(train("rsl_rl"))
