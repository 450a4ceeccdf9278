"""Times of an iteration's parts on one thread, and the arithmetic that its networks need.

    python scripts/benchmarks/arithmetic.py [--tasks ID...] [--num_envs 1024] [--iterations 5]

trains each task with rsl_rl in this process and counts the floating-point operations of matrix
products and convolutions in one more iteration (``FlopCounterMode``: 2 for a
multiplication with its addition). The peak is what a product of two matrices of 1024 rows and
columns reaches on this thread, in float32 and bfloat16. Figures are medians over iterations.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.registry import Task, get_task, load_agent_values, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner

TASKS = ["Isaac-Cartpole-v0", "Isaac-Ant-v0", "Isaac-Velocity-Flat-Unitree-Go2-v0"]
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SIDE = 1024


def main(arguments: Sequence[str]) -> int:
    """Print one row for each task and precision."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="ID", help="task ids")
    parser.add_argument("--num_envs", type=int, default=1024, metavar="N")
    parser.add_argument("--iterations", type=int, default=5, metavar="N", help="timed ones")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    peaks = {name: peak(dtype) for name, dtype in PRECISIONS.items()}
    for name, value in peaks.items():
        print(f"peak in {name}: {value:,.0f} GFLOP/s")
    print("\n| task | precision | collect (s) | of it, the environments | learn (s) | ", end="")
    print("GFLOP to learn | GFLOP/s | of the peak |\n|---|---|---|---|---|---|---|---|")
    for name in flags.tasks:
        for precision in PRECISIONS:
            row = measure(get_task(name), precision, flags.num_envs, flags.iterations)
            rate = row["gflop"] / row["learn_s"]
            print(
                f"| {name} | {precision} | {row['collect_s']:.2f} | "
                f"{row['step_s'] / row['collect_s']:.0%} | {row['learn_s']:.2f} | "
                f"{row['gflop']:,.0f} | {rate:,.0f} | {rate / peaks[precision]:.0%} |",
                flush=True,
            )
    return 0


def peak(dtype: torch.dtype) -> float:
    """Return the speed of a product of matrices, in GFLOP/s: the median of 20."""
    left, right = (torch.randn(SIDE, SIDE).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - start)
    return 2 * SIDE**3 / statistics.median(seconds) / 1e9


def measure(task: Task, precision: str, num_envs: int, iterations: int) -> dict[str, float]:
    """Return an iteration's seconds, and the operations of its learning."""
    context = DistributedContext(num_threads=1)
    env = task.make(
        merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}}, "env"), context=context, seed=0
    )
    values = (load_agent_values(task, "rsl_rl") or {}) | {"precision": precision}
    learner = RslRlLearner(env, merge(RslRlCfg(), values, "agent"), context)
    learner.start(iterations + 2)
    timed_step, step_s = env.step, 0.0

    def step(actions: torch.Tensor) -> Any:
        nonlocal step_s
        start = time.perf_counter()
        result = timed_step(actions)
        step_s += time.perf_counter() - start
        return result

    env.step = step
    rows = []
    for number in range(1, iterations + 2):
        step_s = 0.0
        done = learner.iterate(number, lambda *ended: None)
        rows.append({"collect_s": done.collect_s, "learn_s": done.learn_s, "step_s": step_s})
    medians = {name: statistics.median(row[name] for row in rows[1:]) for name in rows[0]}
    update, counter = learner.alg.update, FlopCounterMode(display=False)

    def counted() -> Any:
        with counter:
            return update()

    learner.alg.update = counted  # type: ignore[method-assign]
    learner.iterate(iterations + 2, lambda *ended: None)
    env.close()
    return medians | {"gflop": counter.get_total_flops() / 1e9}


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
