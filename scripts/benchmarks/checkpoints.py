r"""Costs of checkpoints: size, time of one, and their share of a run's wall time.

    python scripts/benchmarks/checkpoints.py [--cases cartpole ant sac] [--json FILE]
    python -m torch.distributed.run --nproc_per_node=2 \
        scripts/benchmarks/checkpoints.py --distributed

Each case trains a few iterations and saves after each of them; the first save, which also imports
and allocates, is discarded. The time is that of all ranks until rank 0 has the file on disk: it
stops the run, and so it is taken off the run's time in full. The percentage is at the default
cadence, which is ``agent.save_interval`` iterations or ``agent.save_interval_minutes``, whichever
is first.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.distributed.ranks import launched_rank
from envlab.learner import IterationRecord
from envlab.training.launch import train
from envlab.training.saver import Saver

MINUTES = 10.0
"""Default of ``agent.save_interval_minutes``."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run whose checkpoints are measured."""

    library: str
    flags: tuple[str, ...]
    save_interval: int
    """The default cadence of its configuration, in iterations."""
    has_replay: bool = False
    """Whether there is a replay memory. It counts as full, as it is for most of a run."""


CASES = {
    "cartpole": Case(
        library="rsl_rl",
        flags=("--task=Isaac-Cartpole-v0", "--num_envs=1024"),
        save_interval=50,
    ),
    "ant": Case(
        library="rsl_rl", flags=("--task=Isaac-Ant-v0", "--num_envs=4096"), save_interval=50
    ),
    "sac": Case(  # with a memory of a million transitions, which a checkpoint holds
        library="skrl",
        flags=(
            "--task=Isaac-Ant-v0",
            "--algorithm=sac",
            "--num_envs=64",
            "agent.memory.memory_size=15625",
        ),
        save_interval=150,  # a tenth of 1500 iterations
        has_replay=True,
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write JSON where asked."""
    parser = ArgumentParser(prog="checkpoints", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--saves", type=int, default=6, metavar="N", help="checkpoints of each")
    parser.add_argument("--distributed", action="store_true", help="one of several processes")
    parser.add_argument("--folder", metavar="DIR", help="where to write (default: a temporary one)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    flags = parser.parse_args(list(arguments))
    rows = [measure(name, flags.saves, flags.distributed, flags.folder) for name in flags.cases]
    if launched_rank() != 0:
        return 0
    print(
        f"{'case':<10} {'processes':>9} {'MB':>8} {'save (ms)':>10} {'worst':>8} {'MB/s':>7} "
        f"{'iteration (s)':>14} {'every (s)':>10} {'share':>8}"
    )
    for row in rows:
        print(
            f"{row['case']:<10} {row['processes']:>9} {row['megabytes']:>8.1f} "
            f"{1000 * row['save_s']:>10.1f} {1000 * row['worst_save_s']:>8.1f} "
            f"{row['megabytes'] / row['save_s']:>7.0f} {row['iteration_s']:>14.3f} "
            f"{row['every_s']:>10.1f} {row['share']:>8.3%}"
        )
    if flags.json:
        Path(flags.json).write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    return 0


def measure(name: str, saves: int, distributed: bool, root: str | None) -> dict[str, Any]:
    """Return the figures of a case."""
    case = CASES[name]
    words = [*case.flags, "--headless", "--device=cpu", f"--max_iterations={saves}"]
    words += ["agent.save_interval=1", "agent.keep_checkpoints=2"]
    words += ["--distributed"] if distributed else []
    with tempfile.TemporaryDirectory(dir=root) as folder, _timed_saves(case) as saved:
        with contextlib.chdir(folder):
            code = train(case.library, words)
        if code != 0:
            raise SystemExit(code)
    later = saved[1:] or saved
    save_s = statistics.median(one.seconds for one in later)
    iteration_s = statistics.median(one.iteration_s for one in later)
    every_s = min(case.save_interval * iteration_s, 60.0 * MINUTES)
    return {
        "case": name,
        **asdict(case),
        "processes": saved[0].world_size,
        "megabytes": later[-1].size / 1e6,
        "save_s": save_s,
        "worst_save_s": max(one.seconds for one in later),
        "iteration_s": iteration_s,
        "every_s": every_s,
        "share": save_s / (every_s + save_s),
    }


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One checkpoint."""

    seconds: float
    size: int
    iteration_s: float
    world_size: int


@contextlib.contextmanager
def _timed_saves(case: Case) -> Iterator[list[Saved]]:
    """Yield the list that every checkpoint's figures are added to."""
    saved: list[Saved] = []
    save = Saver.save

    def timed_save(saver: Saver, record: IterationRecord) -> None:
        learner: Any = saver._learner
        memory: Any = learner.agent.memory if case.has_replay else SimpleNamespace()
        memory.filled, was_filled = True, getattr(memory, "filled", False)
        start = time.perf_counter()
        save(saver, record)
        seconds = time.perf_counter() - start
        memory.filled = was_filled
        path = saver.last_checkpoint
        saved.append(
            Saved(
                seconds=seconds,
                size=path.stat().st_size if path is not None else 0,
                iteration_s=record.collect_s + record.learn_s,
                world_size=saver._context.world_size,
            )
        )

    Saver.save = timed_save  # type: ignore[method-assign, assignment]
    try:
        yield saved
    finally:
        Saver.save = save  # type: ignore[method-assign]


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
