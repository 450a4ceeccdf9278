"""Gain of ``agent.overlap=true``: frames per second with and without it, alternately.

    python scripts/benchmarks/overlap.py fast_sac --task=Isaac-Ant-v0 [--iterations 40] [FLAGS...]

Without overlap, physics and learner take turns on all cores; with it, each has half of them. It
needs at least two cores without other load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

NUM_WARM_UP = 5
"""First iterations of a run, which are discarded: the replay memory is filled, threads start."""


def main() -> None:
    """Take turns, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", choices=("fast_sac", "rsl_rl"))
    parser.add_argument(
        "--iterations", type=int, default=40, help="of a run (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=2, help="runs of each kind")
    flags, words = parser.parse_known_args()
    cores = len(os.sched_getaffinity(0))
    kinds = {"alternating, one thread": (1, False)}
    if cores > 1:
        kinds[f"alternating, {cores} threads"] = (cores, False)
    kinds["overlap"] = (max(cores // 2, 1), True)
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for _ in range(flags.repeats):
        for kind, (threads, overlaps) in kinds.items():
            more = [*words, f"agent.overlap={str(overlaps).lower()}"]
            found[kind].append(run(flags.library, flags.iterations, threads, more))
    print(f"{cores} cores; {flags.library} {' '.join(words)}\n")
    print("| | frames/s, median | fastest tenth | waited for steps |")
    print("|---|---|---|---|")
    for kind, runs in found.items():
        rates = sorted(rate for rates in runs for rate in rates[1:])
        waited = statistics.median(rates[0] for rates in runs)
        best = rates[int(0.9 * len(rates))]
        print(f"| {kind} | {statistics.median(rates):,.0f} | {best:,.0f} | {waited:.0%} |")


def run(library: str, iterations: int, threads: int, words: list[str]) -> list[float]:
    """Train; return the share of time that was spent on steps, and the iterations' frames/s."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads)}
    budget = f"--max_iterations={iterations + NUM_WARM_UP}"
    command = ["-m", "envlab", "train", library, "--headless", "--device=cpu", budget, *words]
    command.append("agent.save_interval_minutes=0")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, *command], cwd=folder, env=env, check=True, capture_output=True
        )
        (path,) = Path(folder).glob("logs/*/*/*/metrics.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()][NUM_WARM_UP:]
    collecting = sum(record["collect_s"] for record in records)
    whole = collecting + sum(record["learn_s"] for record in records)
    return [collecting / whole, *(record["fps"] for record in records)]


if __name__ == "__main__":
    main()
