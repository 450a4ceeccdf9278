r"""Train on two nodes that are further and further apart; print a table, and draw many nodes.

    python -m scripts.benchmarks.distance --folder /tmp/distance --ways ddp local local:4
    python -m scripts.benchmarks.distance --folder /tmp/distance --library ddppo \
        --tasks Nav-PointNav-Depth-v0 --plot nodes.png

The nodes are network namespaces of this machine (root, iproute2), with one process and one thread
each; a delay is that of every packet, one way, so a collective waits for twice as much or more.
Repeats are interleaved, and times are medians over iterations without the first two. A way is a
value of ``--grad_sync``, for ``local`` with the iterations between two averages. Round trips are
what an iteration takes longer than without delay, in twice the delay.

With ``--plot``, a single process is also measured, and a model predicts the times of up to 64
nodes: an iteration takes the time of one process, the exchange of data, which grows with the number
of nodes n as 2 (n - 1) / n, and waiting for packets, which grows with the depth of a tree, log2 n.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from envlab.run.records import Records
from tests.agents import agent, end
from tests.launcher import ROOT, Launch
from tests.nodes import Nodes, why_not

NUM_ENVS = {"Isaac-Cartpole-v0": 1024, "Isaac-Ant-v0": 256, "Nav-PointNav-Depth-v0": 64}
COLUMNS = ("task", "delay_ms", "way")
Row = tuple[str, float, str]
MODELLED = [1, 2, 4, 8, 16, 32, 64]
WARM_UP = 2
DEADLINE_S = 600.0


def main() -> int:
    """Run all rows and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--library", default="rsl_rl")
    parser.add_argument("--tasks", nargs="+", default=["Isaac-Cartpole-v0", "Isaac-Ant-v0"])
    parser.add_argument("--ways", nargs="+", default=["ddp"])
    parser.add_argument("--delays_ms", nargs="+", type=float, default=[0.0, 1.0, 20.0])
    parser.add_argument("--rate_mbit", type=float, default=math.inf, help="of a node's packets")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--json", type=Path, help="where to write every iteration's times")
    parser.add_argument("--plot", type=Path, help="where to draw measured and modelled speed-ups")
    parser.add_argument("overrides", nargs="*", help="for train.py, such as agent.algorithm...=...")
    flags = parser.parse_args()
    problem = why_not(delayed=True)
    if problem is not None:
        print(f"error: {problem}.", file=sys.stderr)
        return 2
    flags.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[Row, list[float]] = {}
    sent: dict[tuple[str, str], float] = {}
    for _ in range(flags.repeats):
        for task, delay_ms, way in itertools.product(flags.tasks, flags.delays_ms, flags.ways):
            taken, sent[task, way] = train(flags, task, delay_ms / 1e3, way)
            rows.setdefault((task, delay_ms, way), []).extend(taken)
        for task in flags.tasks if flags.plot is not None else ():
            rows.setdefault((task, math.nan, "alone"), []).extend(train_alone(flags, task))
    print("| task | way | delay, one way | iterations/s | of the first row | round trips | sent |")
    print("|---|---|---|---|---|---|---|")
    for key in sorted(rows, key=lambda key: flags.tasks.index(key[0])):
        print(row(key, rows, sent.get((key[0], key[2]), 0.0)))
    if flags.plot is not None:
        draw(flags, rows).savefig(flags.plot, dpi=150)
    if flags.json is not None:
        times = [dict(zip(COLUMNS, key, strict=True), iteration_s=rows[key]) for key in rows]
        flags.json.write_text(json.dumps(times))
    return 0


def command_of(flags: argparse.Namespace, task: str) -> list[str]:
    """Return a library's train.py and its arguments."""
    size = [f"--num_envs={NUM_ENVS.get(task, 256)}", f"--max_iterations={flags.iterations}"]
    threads = [] if task.startswith("Nav-") else ["env.sim.num_threads=1"]
    script = ROOT / "scripts/reinforcement_learning" / flags.library / "train.py"
    words = [f"--task={task}", "--headless", "--device=cpu", *size, *threads]
    return [str(script), *words, "agent.save_interval=1000", *flags.overrides]


def train_alone(flags: argparse.Namespace, task: str) -> list[float]:
    """Return the seconds of one process's iterations, without the first ones."""
    folder = flags.folder / "alone"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [sys.executable, *command_of(flags, task)]
    paths = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'source'}"}
    environment = os.environ | paths
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (metrics,) = folder.glob("logs/*/*/*/metrics.jsonl")
    return seconds_of(metrics)


def train(
    flags: argparse.Namespace, task: str, delay_s: float, way: str
) -> tuple[list[float], float]:
    """Return the seconds of a run's iterations, without the first ones, and bytes sent in each."""
    folder = flags.folder / "nodes"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sync, _, interval = way.partition(":")
    ways = [f"--grad_sync={sync}", *([f"agent.sync_interval={interval}"] if interval else [])]
    script, *words = command_of(flags, task)
    words += ["--distributed", *ways]
    rate = flags.rate_mbit * 1e6 / 8.0
    nodes = Nodes(None if delay_s == 0.0 and math.isinf(rate) else delay_s, rate=rate)
    launches: list[Launch] = []
    try:
        for number, node in enumerate(nodes.nodes):
            endpoint = "localhost" if number == 0 else nodes.nodes[0].address
            command = agent(number, f"{endpoint}:5555", Path(script), *words)
            launches.append(node.launch(command, folder / node.host))
        codes = end(launches, DEADLINE_S)
        assert codes == [0, 0], "\n".join(launch.output for launch in launches)
        sent = nodes.nodes[0].num_sent() / flags.iterations
    finally:
        for launch in launches:
            launch.close()
        nodes.close()
    (metrics,) = folder.glob("node0/logs/*/*/*/metrics.jsonl")
    return seconds_of(metrics), sent


def seconds_of(metrics: Path) -> list[float]:
    """Return the seconds of each iteration; a record is of one or, between averages, of several."""
    records = list(Records(metrics).read())
    found = []
    for before, record in itertools.pairwise(records):
        number = record["iteration"] - before["iteration"]
        if record["iteration"] > WARM_UP + number:
            found += [(record["wall_s"] - before["wall_s"]) / number] * number
    return found


def row(key: Row, rows: dict[Row, list[float]], sent: float) -> str:
    """Return a row of the table."""
    task, delay_ms, way = key
    taken = median(rows[key])
    first = median(next(found for (name, *_), found in rows.items() if name == task))
    near = rows.get((task, 0.0, way))
    trips = f"{(taken - median(near)) / (2e-3 * delay_ms):.1f}" if near and delay_ms else "-"
    delay = f"{delay_ms:g} ms" if delay_ms else "none (veth)"
    if math.isnan(delay_ms):
        delay, trips = "-", "-"
    rates = f"{1.0 / taken:.2f} | {first / taken:.2f} | {trips}"
    return f"| {task} | {way} | {delay} | {rates} | {sent / 1e3:.0f} kB |"


def draw(flags: argparse.Namespace, rows: dict[Row, list[float]]) -> Any:
    """Return the ``matplotlib.figure.Figure`` of speed-ups over nodes, a line for each delay."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(flags.tasks), 4.2), layout="constrained")
    axes = figure.subplots(1, len(flags.tasks), squeeze=False)[0]
    for axis, task in zip(axes, flags.tasks, strict=True):
        taken = {
            delay_ms: median(found)
            for (name, delay_ms, way), found in rows.items()
            if name == task and way in ("alone", flags.ways[0])
        }
        alone = next(second for delay_ms, second in taken.items() if math.isnan(delay_ms))
        near, far = min(flags.delays_ms), max(flags.delays_ms)
        exchange_s = max(0.0, taken[near] - alone)
        waits = max(0.0, taken[far] - taken[near]) / (far - near)
        axis.plot(MODELLED, MODELLED, "--", color="grey", label="ideal")
        for delay_ms in flags.delays_ms:
            iteration_s = [
                alone + exchange_s * 2 * (n - 1) / n + waits * delay_ms * math.log2(n)
                for n in MODELLED
            ]
            speedups = [n * alone / second for n, second in zip(MODELLED, iteration_s, strict=True)]
            (line,) = axis.plot(MODELLED, speedups, label=f"model, {delay_ms:g} ms one way")
            axis.plot(2, 2 * alone / taken[delay_ms], "o", color=line.get_color())
        axis.set(xscale="log", yscale="log", xlabel="nodes", ylabel="speed-up", title=task)
        axis.set_xticks(MODELLED, MODELLED)
        axis.set_yticks(MODELLED, MODELLED)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle(f"{flags.library}: 2 nodes measured (points), others modelled")
    return figure


if __name__ == "__main__":
    raise SystemExit(main())
