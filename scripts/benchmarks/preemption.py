"""Gain of DD-PPO by stopping stragglers: frames per second with and without it.

    python -m torch.distributed.run --nproc_per_node=8 scripts/benchmarks/preemption.py

Steps and updates are sleeps of a given length, so that the result does not depend on other load;
counters, and the exchange of lengths after a rollout, are those of training.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time

from envlab.distributed.context import DistributedContext
from envlab_navigation.ddppo.preemption import Preemption

SCENARIOS = {"equal ranks": 1.0, "one rank 3 times slower": 3.0}
"""Length of a step of rank 0, relative to those of the others."""


def main() -> None:
    """Take turns between thresholds, and print a table on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threshold", type=float, default=0.6, help="(default: %(default)s)")
    parser.add_argument("--num_steps", type=int, default=32, help="of a rollout")
    parser.add_argument("--step_s", type=float, default=0.02, help="of a step of a usual rank")
    parser.add_argument("--update_s", type=float, default=0.12, help="of an update")
    parser.add_argument("--rollouts", type=int, default=8, help="in a turn")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each")
    flags = parser.parse_args()
    context = DistributedContext.create(distributed=True, device="cpu")
    found: dict[tuple[str, float], list[tuple[float, float, float]]] = {}
    for _, name, threshold in itertools.product(
        range(flags.repeats), SCENARIOS, (1.0, flags.threshold)
    ):
        found.setdefault((name, threshold), []).append(run(context, flags, name, threshold))
    if context.is_main:
        print(f"{context.world_size} ranks, rollouts of {flags.num_steps} steps\n")
        print("| ranks | threshold | steps/s | times off | slowest rank's share | counter |")
        print("|---|---|---|---|---|---|")
        for (name, threshold), results in found.items():
            rates, shares, reads = zip(*results, strict=True)
            ratios = [rate / off[0] for rate, off in zip(rates, found[name, 1.0], strict=True)]
            print(
                f"| {name} | {threshold:g} | {statistics.median(rates):.0f} "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
                f"| {statistics.median(shares):.2f} | {statistics.median(reads):.2%} |"
            )
    context.close()


def run(
    context: DistributedContext, flags: argparse.Namespace, name: str, threshold: float
) -> tuple[float, float, float]:
    """Return all ranks' steps a second, the least share of a rollout, and the share of reading."""
    preemption = Preemption(context, threshold)
    step_s = flags.step_s * (SCENARIOS[name] if context.is_main else 1.0)
    steps, shares, reading = 0, [], 0.0
    context.gather(None)
    start = time.perf_counter()
    for rollout in range(1, flags.rollouts + 1):
        preemption.start(rollout, flags.num_steps)
        for step in range(flags.num_steps):
            time.sleep(step_s)
            asked = time.perf_counter()
            stops = preemption.should_stop(step)
            reading += time.perf_counter() - asked
            if stops:
                break
        preemption.finish()
        lengths = context.gather(step + 1)
        steps += sum(lengths)
        shares.append(min(lengths) / flags.num_steps)
        time.sleep(flags.update_s)
    taken = time.perf_counter() - start
    return steps / taken, statistics.fmean(shares), max(context.gather(reading)) / taken


if __name__ == "__main__":
    main()
