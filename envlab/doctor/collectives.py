"""Speed of communication between ranks, and a search for slow ranks."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from envlab.distributed.audit import rank_list
from envlab.distributed.context import DistributedContext
from envlab.doctor.report import Finding, check

LARGE_MIB = (4, 64)
MEASURE_S = 0.5
"""Approximate time for which a collective is repeated."""
MOST_REPEATS, FEWEST_REPEATS = 200, 5
LARGE_BUDGET_S = 8.0
"""Sizes for which one reduction would take longer are skipped."""
WORK_ROUNDS = 5
SLOW_RATIO = 1.5
SLOW_LATENCY_S = 0.02


class Watch:
    """Ends this process if the other ranks do not answer in time, naming what it waits for.

    A separate thread does this, as a collective that hangs never returns.
    """

    def __init__(self, rank: int, timeout_s: float) -> None:
        self._rank, self._timeout_s = rank, timeout_s
        self._timer: threading.Timer | None = None

    def enter(self, phase: str, at_least_s: float = 0.0) -> None:
        """Begin a phase, which has the full time limit, or more."""
        self.close()
        limit_s = max(self._timeout_s, at_least_s)
        self._timer = threading.Timer(limit_s, self._leave, (phase, limit_s))
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """End the phase."""
        if self._timer is not None:
            self._timer.cancel()

    def _leave(self, phase: str, limit_s: float) -> None:
        print(
            f"problem: rank {self._rank} has waited {limit_s:.0f} s in {phase} for the other "
            "ranks. Look at their output; if they wait too, a firewall drops what the ranks send, "
            "or an interface is not the one that reaches the others: see docs/distribute.md.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def measure(context: DistributedContext, watch: Watch) -> dict[str, Any]:
    """Return latencies and bandwidths of reductions, and the time of equal work on each rank.

    Every rank must call this, and gets the same. Times are in seconds, bandwidths in bytes per
    second that each rank sends (and receives) in a ring: ``2 (n - 1) / n`` times the size.
    """
    watch.enter("an all-reduce of 8 bytes")
    facts: dict[str, Any] = {"latency_s": _time_reduction(context, 1), "bandwidth": {}}
    if context.device.type != "cpu":
        facts["latency_gloo_s"] = _time_reduction(context, 1, device="cpu")
    factor = 2 * (context.world_size - 1) / context.world_size
    slowest = facts["latency_s"]
    for mib in LARGE_MIB:
        if slowest * 16 > LARGE_BUDGET_S:
            break
        watch.enter(f"an all-reduce of {mib} MiB")
        slowest = _time_reduction(context, mib << 18)
        facts["bandwidth"][mib] = (mib << 20) * factor / slowest
    watch.enter("a barrier")
    facts["work_s"], facts["barrier_s"] = _time_work(context)
    watch.enter("the comparison of clocks")
    facts["clock_offsets_s"], facts["clock_error_s"] = _compare_clocks(context)
    return facts


def _time_reduction(context: DistributedContext, numbers: int, device: str | None = None) -> float:
    """Return the time of a reduction of float32 numbers on the slowest rank, in seconds."""
    tensor = torch.zeros(max(2, numbers), device=device or context.device)

    def reduce() -> None:
        dist.all_reduce(tensor)
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)

    for _ in range(2):
        reduce()
    start = time.perf_counter()
    reduce()
    once = context.broadcast(time.perf_counter() - start)
    repeats = int(min(MOST_REPEATS, max(FEWEST_REPEATS, MEASURE_S / max(once, 1e-9))))
    return max(context.gather(_median(reduce, 1 if once > MEASURE_S else repeats)))


def _median(function: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _time_work(context: DistributedContext) -> tuple[list[float], list[float]]:
    """Return the time of a fixed piece of work, and then of waiting for the others, per rank."""
    matrix = torch.full((256, 256), 1e-3, device=context.device)
    work, wait = [], []
    for number in range(WORK_ROUNDS + 1):
        _wait_for_all()
        start = time.perf_counter()
        product = matrix
        for _ in range(40):
            product = product @ matrix
        float(product[0, 0])  # waits for a GPU
        done = time.perf_counter()
        _wait_for_all()
        if number:  # the first warms up
            work.append(done - start)
            wait.append(time.perf_counter() - done)
    everyone = context.gather((statistics.median(work), statistics.median(wait)))
    return [times[0] for times in everyone], [times[1] for times in everyone]


def _compare_clocks(context: DistributedContext) -> tuple[list[float], float]:
    """Return the offset of each rank's clock from rank 0's, and its uncertainty."""
    rounds, errors = [], []
    for _ in range(5):
        _wait_for_all()
        start = time.time()
        _wait_for_all()
        now = time.time()
        rounds.append(context.gather(now))
        errors.append(now - start)
    error = max(context.gather(statistics.median(errors)))
    offsets = [
        statistics.median([times[rank] - times[0] for times in rounds])
        for rank in range(context.world_size)
    ]
    return offsets, error


def _wait_for_all() -> None:
    dist.all_reduce(torch.zeros(1))


def findings_of_measures(facts: dict[str, Any], hosts: Sequence[str]) -> list[Finding]:
    """Return the lines for the results of :func:`measure`.

    Args:
        facts: Its results.
        hosts: The host of each rank.
    """
    hint = (
        "let the nodes talk by a faster network (see the interface of each node)"
        if len(set(hosts)) > 1
        else "this machine is busy, or has fewer cores than ranks; start fewer"
    )
    latency = facts["latency_s"]
    findings = [
        check(
            latency <= SLOW_LATENCY_S,
            "all-reduce",
            f"{latency * 1e3:.2f} ms for 8 bytes",
            f"every update waits for several of these: {hint}",
        )
    ]
    if "latency_gloo_s" in facts:
        text = f"{facts['latency_gloo_s'] * 1e3:.2f} ms for 8 bytes over gloo"
        findings.append(Finding("host all-reduce", text))
    for mib in LARGE_MIB:
        name, bandwidth = f"all-reduce {mib} MiB", facts["bandwidth"].get(mib)
        if bandwidth is None:
            findings.append(Finding(name, "not measured: it would take too long here", "note"))
        else:
            findings.append(Finding(name, f"{bandwidth / 1e9:.2f} GB/s that each rank sends"))
    return [*findings, _speeds(facts["work_s"], facts["barrier_s"], hosts)]


def _speeds(work_s: Sequence[float], barrier_s: Sequence[float], hosts: Sequence[str]) -> Finding:
    """Return the line on equal work: each iteration takes as long as the slowest rank."""
    slowest = max(range(len(work_s)), key=work_s.__getitem__)
    ratio = work_s[slowest] / statistics.median_low(work_s)
    text = (
        f"the same work takes {min(work_s) * 1e3:.1f} to {work_s[slowest] * 1e3:.1f} ms; ranks "
        f"wait {statistics.mean(barrier_s) * 1e3:.1f} ms at a barrier then"
    )
    if ratio <= SLOW_RATIO:
        return Finding("equal work", text)
    slow = [rank for rank, each in enumerate(work_s) if each > SLOW_RATIO * min(work_s)]
    return Finding(
        "equal work",
        f"{text}; {rank_list(slow)} on {hosts[slowest]} is {ratio:.1f} times as slow",
        "warning",
        f"every iteration waits for it: look for other work on {hosts[slowest]}, and at its cores "
        "and clock speed",
    )
