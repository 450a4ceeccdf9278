r"""Frames per second, and times of an iteration's parts, in training on 1, 2, ... processes.

    python scripts/benchmarks/scaling.py --task Isaac-Ant-v0 --processes 1,2 --mode weak \
        --folder /tmp/scaling [--library rsl_rl] [--num_envs 1024] [--repeats 3] [--iterations 10] \
        [--json FILE] [--plot FILE] [-- FLAGS...]

Every run is train.py under torch.distributed.run, each process on one thread and pinned to a
separate core. Numbers of processes take turns within a repeat, so that noise affects all alike;
figures are medians over repeats, and speed-ups are taken within a repeat. With `weak`, every
process has `--num_envs` environments; with `strong`, they share this number. The first iteration of
a run is not counted.

An iteration's time is split by what `scaling_worker.py` notes of every collective, on every rank:
`reduce` is its shortest time over ranks, the time of the exchange itself; `wait` is the time that
ranks spend in it beyond that, on average, because another rank is late. Reductions of
DistributedDataParallel during the backward pass cost nothing and are in neither. Both are part of
`collect`, `learn` and the rest of an iteration. `CPU` is an iteration's time on a process's core,
over all its threads: it hardly depends on other load. `audit` is the time of one audit, which is
due in every 50th iteration by default.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.libraries import libraries
from envlab.registry import get_task, load_env_cfg
from envlab.run.compare.statistics import require
from envlab.run.records import Records

WORKER = Path(__file__).with_name("scaling_worker.py")
AUDIT_INTERVAL = 50
"""Iterations between two audits by default."""
PARTS = {"collect": "#4c78a8", "learn": "#72b7b2", "reduce": "#e45756", "wait": "#f2a19b"}
"""Colours of an iteration's parts."""


def main(arguments: Sequence[str]) -> int:
    """Run all combinations alternately; print the table, and write JSON and picture on request."""
    flags = _flags(arguments)
    flags.folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for repeat in range(flags.repeats):
        for mode in flags.mode:
            for size in flags.processes:
                print(f"repeat {repeat + 1}, {mode}, {size} ...", file=sys.stderr, flush=True)
                runs.append(measure(flags, mode, size, repeat))
    rows = summary(runs)
    print(table(rows))
    report = {"task": flags.task, "library": flags.library, "rows": rows, "runs": runs}
    if flags.json is not None:
        flags.json.write_text(json.dumps(report, indent=2) + "\n")
    if flags.plot is not None:
        draw(report).savefig(flags.plot, dpi=150)
        print(f"Picture: {flags.plot}")
    return 0


def _flags(arguments: Sequence[str]) -> Any:
    parser = ArgumentParser(prog="scaling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Isaac-Ant-v0", metavar="ID")
    parser.add_argument(
        "--library",
        default="rsl_rl",
        metavar="NAME[:FRAMEWORK]",
        help="rsl_rl, rl_games, skrl, skrl:jax or ddppo",
    )
    parser.add_argument("--processes", default="1,2", metavar="N,...")
    parser.add_argument("--mode", default="weak", metavar="weak|strong|weak,strong")
    parser.add_argument("--num_envs", type=int, default=1024, metavar="N")
    parser.add_argument("--iterations", type=int, default=10, metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR", help="for the runs")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=".png, .pdf or .svg")
    parser.add_argument("overrides", nargs="*", help="flags and overrides for train.py, after --")
    flags = parser.parse_args(list(arguments))
    if flags.library.partition(":")[0] not in libraries():
        known = ", ".join([*libraries(), "skrl:jax"])
        raise ConfigurationError(f"--library is {flags.library!r}, but must be one of {known}.")
    flags.mode = flags.mode.split(",")
    if not set(flags.mode) <= {"weak", "strong"}:
        raise ConfigurationError(
            f"--mode is {','.join(flags.mode)!r}, but must be weak, strong or weak,strong."
        )
    cores = len(os.sched_getaffinity(0))
    counts = flags.processes.split(",")
    if not all(count.isdigit() and 1 <= int(count) <= cores for count in counts):
        raise ConfigurationError(
            f"--processes is {flags.processes!r}, but must be numbers from 1 to {cores}, because "
            "every process gets a separate core. Write them as in 1,2."
        )
    flags.processes = sorted({int(count) for count in counts})
    for name, least in (("iterations", 2), ("repeats", 1), ("num_envs", 1)):
        if getattr(flags, name) < least:
            raise ConfigurationError(
                f"--{name} is {getattr(flags, name)}, but must be {least} or more."
            )
    if any(flags.folder.glob("*_processes_*")):
        raise ConfigurationError(
            f"--folder is {flags.folder}, which holds earlier measurements. Give another folder."
        )
    return flags


def measure(flags: Any, mode: str, size: int, repeat: int) -> dict[str, Any]:
    """Train once, and return its figures and its curve."""
    folder = flags.folder / f"{mode}_{size}_processes_{repeat + 1}"
    folder.mkdir()
    library, _, framework = flags.library.partition(":")
    number = "num_envs" if mode == "weak" else "global_num_envs"
    words = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes=1"),
        *("--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", f"--nproc_per_node={size}"),
        *(str(WORKER), str(folder.absolute()), library),
        *(f"--task={flags.task}", "--headless", "--device=cpu", f"--{number}={flags.num_envs}"),
        f"--max_iterations={flags.iterations}",
        *(["env.sim.num_threads=1"] if hasattr(load_env_cfg(get_task(flags.task)), "sim") else []),
        *([f"--ml_framework={framework}"] if framework else []),
        *flags.overrides,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error: " in line]
        reason = lines[0].partition("error: ")[2] if lines else done.stderr[-2000:]
        raise ConfigurationError(f"{mode} with {size} processes failed: {reason}")
    (metrics,) = folder.glob("logs/*/*/*/metrics.jsonl")
    records = list(Records(metrics).read())
    ranks = [
        json.loads((folder / f"rank{rank}.json").read_text())["iterations"] for rank in range(size)
    ]
    return {
        "mode": mode,
        "processes": size,
        "repeat": repeat,
        **figures(ranks, [record["frames"] for record in records]),
        "curve": [[record["frames"], record["mean_return"]] for record in records],
    }


def figures(ranks: list[list[dict[str, Any]]], frames: list[int]) -> dict[str, float]:
    """Return a run's frames per second and seconds per iteration, without the first iteration.

    Args:
        ranks: For each rank its iterations, as `scaling_worker.py` wrote them.
        frames: Frames of all ranks after each iteration.
    """
    counted = [iterations[1:] for iterations in ranks]
    number = len(counted[0])
    seconds = sum(iteration["seconds"] for iteration in counted[0])
    exchanged, waited = 0.0, 0.0
    for kind in ("collectives", "gradients"):
        for same in zip(*counted, strict=True):
            for durations in zip(*(iteration[kind] for iteration in same), strict=True):
                exchanged += min(durations)
                waited += statistics.fmean(durations) - min(durations)
    audits = [second for iterations in ranks for one in iterations for second in one["audit"]]
    return {
        "fps": (frames[-1] - frames[0]) / seconds,
        "iteration_s": seconds / number,
        "cpu_s": statistics.fmean(one["cpu_s"] for rank in counted for one in rank),
        "collect_s": statistics.fmean(one["collect_s"] for one in counted[0]),
        "learn_s": statistics.fmean(one["learn_s"] for one in counted[0]),
        "reduce_s": exchanged / number if len(ranks) > 1 else 0.0,
        "wait_s": waited / number,
        "audit_s": statistics.median(audits),
        "frames_per_iteration": (frames[-1] - frames[0]) / number,
    }


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per mode and number of processes: medians over repeats."""
    rows = []
    for mode, size in dict.fromkeys((run["mode"], run["processes"]) for run in runs):
        same = [run for run in runs if (run["mode"], run["processes"]) == (mode, size)]
        medians = {
            name: statistics.median(run[name] for run in same)
            for name in same[0]
            if name not in ("mode", "processes", "repeat", "curve")
        }
        least = min(run["processes"] for run in runs)
        base = {
            run["repeat"]: run["fps"]
            for run in runs
            if (run["mode"], run["processes"]) == (mode, least)
        }
        speedups = [run["fps"] / base[run["repeat"]] for run in same]
        whole = medians["iteration_s"]
        rows.append(
            {
                "mode": mode,
                "processes": size,
                **medians,
                "fps_range": [min(run["fps"] for run in same), max(run["fps"] for run in same)],
                "speedup": statistics.median(speedups),
                "speedup_range": [min(speedups), max(speedups)],
                "efficiency": statistics.median(speedups) * least / size,
                "reduce_share": medians["reduce_s"] / whole,
                "wait_share": medians["wait_s"] / whole,
                "audit_share": medians["audit_s"] / whole / AUDIT_INTERVAL,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return a markdown table."""
    lines = [
        "| mode | processes | frames/s (range) | speed-up (range) | efficiency | iteration (s) "
        "| CPU (s) | collect (s) | learn (s) | reduce | wait | audit (ms) | audits |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["fps_range"]
        slow, fast = row["speedup_range"]
        lines.append(
            f"| {row['mode']} | {row['processes']} | {row['fps']:,.0f} ({low:,.0f} to {high:,.0f}) "
            f"| {row['speedup']:.2f} ({slow:.2f} to {fast:.2f}) | {row['efficiency']:.0%} "
            f"| {row['iteration_s']:.3f} | {row['cpu_s']:.3f} "
            f"| {row['collect_s']:.3f} | {row['learn_s']:.3f} "
            f"| {row['reduce_share']:.1%} | {row['wait_share']:.1%} "
            f"| {1000.0 * row['audit_s']:.1f} | {row['audit_share']:.3%} |"
        )
    return "\n".join(lines)


def draw(report: dict[str, Any]) -> Any:
    """Return the ``matplotlib.figure.Figure``: speed-up, an iteration's parts, and returns.

    Raises:
        ConfigurationError: If matplotlib is not installed.
    """
    module = require("matplotlib.figure", "The picture")
    figure = module.Figure(figsize=(14, 4.5), layout="constrained")
    speed, parts, returns = figure.subplots(1, 3)
    modes = list(dict.fromkeys(row["mode"] for row in report["rows"]))
    for mode in modes:
        rows = [row for row in report["rows"] if row["mode"] == mode]
        sizes = [row["processes"] for row in rows]
        values = [row["speedup"] for row in rows]
        below = [row["speedup"] - row["speedup_range"][0] for row in rows]
        above = [row["speedup_range"][1] - row["speedup"] for row in rows]
        speed.errorbar(sizes, values, yerr=[below, above], marker="o", capsize=3, label=mode)
    sizes = sorted({row["processes"] for row in report["rows"]})
    speed.plot(sizes, [size / sizes[0] for size in sizes], "--", color="grey", label="ideal")
    speed.set(xlabel="processes", ylabel="speed-up in frames/s", xticks=sizes)
    _draw_parts(parts, report["rows"])
    for run in report["runs"]:
        if run["repeat"] == 0:
            points = [point for point in run["curve"] if point[1] is not None]
            label = f"{run['mode']}, {run['processes']}"
            returns.plot(*zip(*points, strict=True) if points else ([], []), label=label)
    returns.set(xlabel="frames of all environments", ylabel="mean return")
    returns.xaxis.set_major_formatter(require("matplotlib.ticker").EngFormatter(sep=""))
    for axis in (speed, parts, returns):
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.suptitle(f"{report['task']}, {report['library']}")
    return figure


def _draw_parts(axis: Any, rows: list[dict[str, Any]]) -> None:
    """Stack the parts of an iteration's seconds; reductions are drawn as taken from learning."""
    labels = [f"{row['mode']}\n{row['processes']}" for row in rows]
    bottom = [0.0] * len(rows)
    for name, colour in PARTS.items():
        heights = [row[f"{name}_s"] for row in rows]
        if name == "learn":
            heights = [max(0.0, row["learn_s"] - row["reduce_s"] - row["wait_s"]) for row in rows]
        axis.bar(labels, heights, bottom=bottom, color=colour, label=name)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axis.set(ylabel="seconds of an iteration")


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
