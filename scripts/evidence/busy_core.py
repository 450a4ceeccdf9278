"""Train DD-PPO by two processes on two cores, of which one also has other work.

    python busy_core.py --task=Nav-PointNav-Depth-v0 --seed=0 ... --preemption_threshold=0.6

Each process keeps to one of the first two cores that this one may use. The other work is of a lower
priority, so that the first process gets two thirds of its core. Further words are those of
``envlab train ddppo``. The policy is played in houses of ``test``.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

from envlab.interrupts import ending_in_order

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
    with ending_in_order():
        try:
            pin(training, cores)
            other.start()
            code = training.wait()
        finally:
            training.terminate()
            training.wait()
    other.kill()
    if code:
        raise SystemExit(code)
    played = [f"--num_episodes={flags.num_episodes}", "--num_envs=64", "--json=played.json"]
    task = flags.task.replace("-v0", "-Play-v0")
    where = [f"--task={task}", "--checkpoint=latest", "env.houses.split=test"]
    raise SystemExit(start("play", *where, *played).wait())


def start(verb: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a command of envlab for DD-PPO."""
    return subprocess.Popen([sys.executable, "-m", "envlab.cli", verb, "ddppo", *words])


def pin(training: subprocess.Popen[bytes], cores: Sequence[int]) -> None:
    """Wait for a training's ranks, and keep each to its core."""
    pinned: set[int] = set()
    while len(pinned) < len(cores) and training.poll() is None:
        for process in psutil.Process(training.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                rank = int(process.environ().get("RANK", -1))
                if rank >= 0 and rank not in pinned:
                    for thread in process.threads():
                        os.sched_setaffinity(thread.id, {cores[rank]})
                    pinned.add(rank)
        time.sleep(0.1)


def work(core: int) -> None:
    """Keep a core busy, as long as the process that started this one lives."""
    parent = os.getppid()
    os.sched_setaffinity(0, {core})
    os.nice(NICENESS)
    while os.getppid() == parent:
        pass


if __name__ == "__main__":
    main()
