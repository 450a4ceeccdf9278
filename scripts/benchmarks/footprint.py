"""Import time, listing time and peak memory, each in a separate process.

Example::

    python scripts/benchmarks/footprint.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = Path(__file__).parents[1] / "reinforcement_learning" / "rsl_rl" / "train.py"
RUNS = 5


def main() -> int:
    """Print the figures."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    python = sys.executable
    empty = _median_s([python, "-c", "pass"])
    imported = _median_s([python, "-c", "import envlab"])
    listed = _median_s([python, "-m", "envlab.cli", "list"])
    print(f"Start of Python alone          {empty:6.3f} s (median of {RUNS})")
    print(f"import envlab, beyond that     {imported - empty:6.3f} s")
    print(f"envlab list, whole process     {listed:6.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(TRAIN), "--task=Isaac-Cartpole-v0", "--num_envs=4096"]
        peak = _peak_memory_mib([*command, "--max_iterations=5"], folder)
    print(f"Training with 4096 environments {peak:5.0f} MiB at most (resident)")
    return 0


def _median_s(command: list[str]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _peak_memory_mib(command: list[str], folder: str) -> float:
    """Return the largest resident size of a process, as the kernel accounts it."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
    return usage.ru_maxrss / 1024


if __name__ == "__main__":
    raise SystemExit(main())
