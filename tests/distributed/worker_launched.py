"""A worker of skrl's launcher without torch. Usage: worker_launched.py HOW, see :func:`work`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from envlab.distributed import skrl_launcher
from envlab.distributed.program import guarded
from envlab.distributed.skrl_launcher import run_supervised
from envlab.errors import ConfigurationError

GRACE_S = 1.0
"""Time for the other workers to end by themselves."""


def work(how: str) -> int:
    """End on rank 1 by ``how``; rank 0 notices after a moment, and reports it."""
    rank = int(os.environ["JAX_RANK"])
    Path(f"worker_{rank}").write_text(f"{os.getpid()} {os.environ['LOCAL_WORLD_SIZE']}")
    while not all(Path(f"worker_{other}").exists() for other in range(2)):
        time.sleep(0.01)
    if how == "refuse":
        raise ConfigurationError("The flag is wrong.")
    if how in ("wait", "outlive"):
        time.sleep(60.0)
    if how == "succeed":
        return 0
    if rank == 1:
        raise RuntimeError("rank 1 is broken")
    time.sleep(0.5)
    print("rank 0 noticed")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "outlive":
        skrl_launcher.GRACE_S = GRACE_S
    raise SystemExit(run_supervised(lambda: guarded(lambda words: work(words[0]), sys.argv[1:])))
