"""Train DD-PPO by two processes on two cores, of which one has other work too.

    python busy_core.py --task=Nav-PointNav-Depth-v0 --seed=0 ... --preemption_threshold=0.6

Each process keeps to one of the first two cores that this one may use. The other work is of a lower
priority, so that the first process gets two thirds of its core. Further words are those of
``envlab train ddppo``. The policy is played in houses of ``test``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

PATIENCE_S = 120.0
"""For the processes to appear."""
NICENESS = 3
"""Of the other work: a weight of 526 beside 1024, in Linux' scheduler."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and play."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("task", "seed", "max_frames", "num_episodes"):
        parser.add_argument(f"--{name}", required=True)
    flags, words = parser.parse_known_args(arguments)
    cores = sorted(os.sched_getaffinity(0))[:2]
    budget = [f"--seed={flags.seed}", f"--max_frames={flags.max_frames}", "--nproc=2"]
    other = multiprocessing.get_context("spawn").Process(target=work, args=(cores[0],), daemon=True)
    training = start("train", f"--task={flags.task}", *budget, *words)
    try:
        pin(training.pid, cores)
        other.start()
        if training.wait():
            raise SystemExit(training.returncode)
    finally:
        training.terminate()
        if other.pid is not None:
            other.kill()
    played = [f"--num_episodes={flags.num_episodes}", "--num_envs=64", "--json=played.json"]
    task = flags.task.replace("-v0", "-Play-v0")
    where = [f"--task={task}", "--checkpoint=latest", "env.houses.split=test"]
    raise SystemExit(start("play", *where, *played).wait())


def start(verb: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a command of envlab for DD-PPO."""
    return subprocess.Popen([sys.executable, "-m", "envlab.cli", verb, "ddppo", *words])


def pin(launcher: int, cores: Sequence[int]) -> None:
    """Wait for the ranks that a process starts, and keep each to its core."""
    end = time.monotonic() + PATIENCE_S
    pinned: set[int] = set()
    while len(pinned) < len(cores):
        if time.monotonic() > end:
            raise SystemExit(f"No {len(cores)} ranks appeared within {PATIENCE_S:.0f} s.")
        for process in psutil.Process(launcher).children(recursive=True):
            rank = process.environ().get("RANK")
            if rank is not None and int(rank) not in pinned:
                for thread in process.threads():
                    os.sched_setaffinity(thread.id, {cores[int(rank)]})
                pinned.add(int(rank))
        time.sleep(0.1)


def work(core: int) -> None:
    """Keep a core busy."""
    os.sched_setaffinity(0, {core})
    os.nice(NICENESS)
    while True:
        pass


if __name__ == "__main__":
    main()
