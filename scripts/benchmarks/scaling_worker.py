"""One process of `scaling.py`: train.py on one core, with a clock at every collective.

    python -m torch.distributed.run --nproc_per_node=2 scaling_worker.py FOLDER LIBRARY FLAGS...

writes `FOLDER/rank<i>.json`: per iteration, the seconds of every collective in the order in which
they were called. A collective's seconds are those of the training thread, so they include the time
that this rank waits for slower ones; the shortest over ranks is what the exchange itself took.

DistributedDataParallel reduces gradients during the backward pass; only the time after that pass
counts. It is torch's own measurement (its DDP logger): the whole reduction minus the part that
overlaps with the backward pass.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook

from envlab.distributed.context import DistributedContext
from envlab.distributed.ranks import read_ranks
from envlab.learner import IterationRecord
from envlab.training.launch import train
from envlab.training.loop import Training
from envlab.training.metrics import ProgressLine

COLLECTIVES = (
    "all_reduce",
    "all_gather_object",
    "broadcast_object_list",
    "broadcast",
    "all_gather",
    "barrier",
)
NANO = 1e-9


class Clock:
    """Times by iteration; `start` begins after one-time work."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._now: dict[str, list[float]] = {"collectives": [], "gradients": [], "audit": []}
        self._started = time.perf_counter()
        self._cpu = time.process_time()

    def watch(self, owner: Any, name: str, kind: str) -> None:
        """Time every call of a function or method."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._now[kind].append(time.perf_counter() - start)

        setattr(owner, name, timed)

    def watch_gradients(self) -> None:
        """Record, after each optimizer step, the waiting time of DDP's last backward pass.

        DDP reports a backward pass in the next forward pass, so the last one of an iteration
        counts in the next iteration.
        """
        models: list[Any] = []
        seen: dict[int, int] = {}
        initialise: Callable[..., None] = DistributedDataParallel.__init__

        @functools.wraps(initialise)
        def noted(model: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
            initialise(model, *args, **kwargs)
            model._set_ddp_runtime_logging_sample_rate(1)
            models.append(model)

        def after_step(*_: Any) -> None:
            for model in models:
                data = model.logger._get_ddp_logging_data().ints_map
                start = data.get("backward_comm_time_start", 0)
                if start > seen.get(id(model), 0):
                    seen[id(model)] = start
                    overlap = data["backward_compute_comm_overlap_time"]
                    exposed = (data["backward_comm_time"] - overlap) * NANO
                    self._now["gradients"].append(max(0.0, exposed))

        patched: Any = DistributedDataParallel
        patched.__init__ = noted
        register_optimizer_step_post_hook(after_step)

    def watch_iterations(self) -> None:
        """Close an iteration's record at its end."""
        patched: Any = ProgressLine
        show = ProgressLine.show

        def shown(line: ProgressLine, record: IterationRecord, more: str = "") -> None:
            show(line, record, more)
            self.iterations.append(
                {
                    "number": record.iteration,
                    "seconds": time.perf_counter() - self._started,
                    "cpu_s": time.process_time() - self._cpu,
                    "collect_s": record.collect_s,
                    "learn_s": record.learn_s,
                    **self._now,
                }
            )
            self._begin()

        patched.show = shown


def main() -> int:
    """Train, and write the times."""
    folder, library, *flags = sys.argv[1:]
    ranks = read_ranks(True, os.environ)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[ranks["local_rank"] % len(cores)]})
    os.chdir(folder)
    clock = Clock()
    for name in COLLECTIVES:
        clock.watch(dist, name, "collectives")
    clock.watch(DistributedContext, "gather_to_main", "collectives")
    clock.watch(Training, "audit", "audit")
    clock.watch_gradients()
    clock.watch_iterations()
    code = train(library, [*flags, "--distributed"])
    values = {"rank": ranks["rank"], "iterations": clock.iterations}
    Path(f"rank{ranks['rank']}.json").write_text(json.dumps(values))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
