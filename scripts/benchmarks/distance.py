"""Train on two nodes that are further and further apart; print a table.

    python -m scripts.benchmarks.distance --folder /tmp/distance

The nodes are network namespaces of this machine (root, iproute2), with one process and one thread
each; a delay is that of every packet, one way, so a collective waits for twice as much or more.
Repeats are interleaved, and times are medians over iterations, of which the first two are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

from tests.agents import agent, end
from tests.launcher import TRAIN, Launch
from tests.nodes import Nodes, why_not

NUM_ENVS = {"Isaac-Cartpole-v0": 1024, "Isaac-Ant-v0": 256}
WARM_UP = 2
DEADLINE_S = 600.0


def main() -> int:
    """Run all rows and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--tasks", nargs="+", default=list(NUM_ENVS))
    parser.add_argument("--delays_ms", nargs="+", type=float, default=[0.0, 1.0, 20.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--json", type=Path, help="where to write every iteration's times")
    parser.add_argument("overrides", nargs="*", help="for train.py, such as agent.algorithm...=...")
    flags = parser.parse_args()
    problem = why_not(delayed=True)
    if problem is not None:
        print(f"error: {problem}.", file=sys.stderr)
        return 2
    flags.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for _ in range(flags.repeats):
        for task in flags.tasks:
            for delay_ms in flags.delays_ms:
                words = [f"--max_iterations={flags.iterations}", *flags.overrides]
                records = train(flags.folder / "nodes", task, delay_ms / 1e3, words)
                rows.setdefault((task, delay_ms), []).extend(records)
    print("| task | delay, one way | iterations/s | collect | learn | share of learn |")
    print("|---|---|---|---|---|---|")
    for (task, delay_ms), records in rows.items():
        print(row(task, delay_ms, records))
    if flags.json is not None:
        times = [{"task": key[0], "delay_ms": key[1], "records": rows[key]} for key in rows]
        flags.json.write_text(json.dumps(times))
    return 0


def train(folder: Path, task: str, delay_s: float, words: list[str]) -> list[dict[str, Any]]:
    """Return the records of a run's iterations without the first ones."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    flags = [f"--task={task}", "--headless", "--device=cpu", "--distributed"]
    size = [f"--num_envs={NUM_ENVS.get(task, 256)}", "env.sim.num_threads=1"]
    words = [*flags, *size, "agent.save_interval=1000", *words]
    nodes = Nodes(delay_s or None)
    launches: list[Launch] = []
    try:
        for number, node in enumerate(nodes.nodes):
            endpoint = "localhost" if number == 0 else nodes.nodes[0].address
            command = agent(number, f"{endpoint}:5555", TRAIN, *words)
            launches.append(node.launch(command, folder / node.host))
        codes = end(launches, DEADLINE_S)
        assert codes == [0, 0], "\n".join(launch.output for launch in launches)
    finally:
        for launch in launches:
            launch.close()
        nodes.close()
    (metrics,) = folder.glob("node0/logs/*/*/*/metrics.jsonl")
    return [json.loads(line) for line in metrics.open()][WARM_UP:]


def row(task: str, delay_ms: float, records: list[dict[str, Any]]) -> str:
    """Return a row of the table."""
    collect, learn = (median(one[name] for one in records) for name in ("collect_s", "learn_s"))
    delay = f"{delay_ms:g} ms" if delay_ms else "none (veth)"
    rate = 1.0 / (collect + learn)
    times = f"{collect:.2f} s | {learn:.2f} s | {learn / (collect + learn):.0%}"
    return f"| {task} | {delay} | {rate:.2f} | {times} |"


if __name__ == "__main__":
    raise SystemExit(main())
