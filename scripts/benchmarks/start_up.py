"""Time from start to first result in new processes, the median of several.

    python scripts/benchmarks/start_up.py --repeats 9

Seconds of wall time of a whole process, including the interpreter's own start, alternating with
``python -c pass``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

ENVLAB = [sys.executable, "-m", "envlab"]
CARTPOLE = "'Isaac-Cartpole-v0', num_envs=4, device='cpu'"
PROCESSES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import envlab": [sys.executable, "-c", "import envlab"],
    "envlab.list_tasks()": [sys.executable, "-c", "import envlab; envlab.list_tasks()"],
    "envlab list": [*ENVLAB, "list"],
    "envlab train --help": [*ENVLAB, "train", "rsl_rl", "--task=Isaac-Ant-v0", "--help"],
    "a mistyped override": [*ENVLAB, "train", "rsl_rl", "--task=Isaac-Ant-v0", "env.decimatoin=2"],
    "envlab.make(Cartpole)": [sys.executable, "-c", f"import envlab; envlab.make({CARTPOLE})"],
    "envlab.load_policy(Cartpole)": [
        *(sys.executable, "-c"),
        "import envlab; envlab.load_policy('Isaac-Cartpole-v0', device='cpu')",
    ],
}


def seconds(words: list[str]) -> float:
    """Return how long a process takes."""
    start = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, metavar="N")
    flags = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in range(flags.repeats):
        for name, words in PROCESSES.items():
            times[name].append(seconds(words))
    print("| process | seconds |\n|---|---|")
    for name, taken in times.items():
        print(f"| `{name}` | {statistics.median(taken):.2f} |")


if __name__ == "__main__":
    main()
