"""train.py, but rank 0 takes seconds to close its curves, as a service on the network may."""

from __future__ import annotations

import os
import time

from envlab.training.launch import train
from envlab.training.loop import Training

SECONDS = 6.0
"""Long enough for the other rank to be gone, and for torchrun to have sent SIGTERM."""


def slow_close(training: Training) -> None:
    if os.environ["RANK"] == "0":
        time.sleep(SECONDS)
    close(training)


if __name__ == "__main__":
    close, Training.close = Training.close, slow_close  # type: ignore[method-assign]
    raise SystemExit(train("rsl_rl"))
