"""Train and play tasks with every library, on one process and on several; print a table.

    python scripts/benchmarks/libraries.py --folder /tmp/libraries

Each row is one run at the task's own settings for that library, in a separate folder, followed by
`play.py` on its last checkpoint. Frames and wall time are the run's own (`metrics.jsonl`); wall
time is without imports and set-up, which are part of the column "in all".
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts/reinforcement_learning"
LAUNCHERS = {"jax": "skrl.utils.distributed.jax"}
"""Module that launches several processes, if it is not torch's."""


@dataclass(frozen=True)
class Library:
    """A row's library, as `rsl_rl` or `skrl:jax`."""

    name: str
    framework: str | None

    @classmethod
    def parse(cls, text: str) -> Library:
        """Return the library that a word of `--libraries` names."""
        name, _, framework = text.partition(":")
        return cls(name, framework or None)

    def __str__(self) -> str:
        return f"{self.name} ({self.framework})" if self.framework else self.name

    def command(self, script: str, *flags: str) -> list[str]:
        """Return the words after `python` for one of the library's scripts."""
        words = [str(SCRIPTS / self.name / f"{script}.py"), *flags]
        return words + ([f"--ml_framework={self.framework}"] if self.framework else [])


def main() -> int:
    """Run all rows and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--tasks", nargs="+", default=["Isaac-Cartpole-v0"])
    parser.add_argument(
        "--libraries",
        nargs="+",
        type=Library.parse,
        default=[Library.parse(text) for text in ("rsl_rl", "rl_games", "skrl:torch", "skrl:jax")],
        metavar="LIBRARY[:FRAMEWORK]",
    )
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("overrides", nargs="*", help="flags and overrides for train.py, after --")
    flags = parser.parse_args()
    rows = [
        measure(flags, task, library, num_processes)
        for task in flags.tasks
        for library in flags.libraries
        for num_processes in flags.processes
    ]
    print(table(rows))
    return 0


def measure(
    flags: argparse.Namespace, task: str, library: Library, num_processes: int
) -> dict[str, Any]:
    """Train and play once; return a row of the table."""
    folder = flags.folder / task / str(library).replace(" ", "_") / f"{num_processes}_processes"
    folder.mkdir(parents=True)
    words = [f"--task={task}", "--headless", f"--seed={flags.seed}", *flags.overrides]
    command = library.command("train", *words)
    if num_processes > 1:
        launcher = LAUNCHERS.get(library.framework or "", "torch.distributed.run")
        processes = f"--nproc_per_node={num_processes}"
        command = ["-m", launcher, "--nnodes=1", processes, *command, "--distributed"]
    print(f"{task}, {library}, {num_processes} processes ...", file=sys.stderr, flush=True)
    start = time.perf_counter()
    run(command, folder)
    in_all = time.perf_counter() - start
    (manifest,) = folder.glob("logs/*/*/*/run.json")
    records = [json.loads(line) for line in (manifest.parent / "metrics.jsonl").open()]
    checkpoint = f"--checkpoint={manifest.parent / 'checkpoints'}"
    iteration = json.loads(manifest.read_text())["iteration"]
    played = run(
        library.command("play", f"--task={task}", f"{checkpoint}/model_{iteration}.pt"), folder
    )
    pole = re.search(r"cart_to_pole ([\d.]+)", played)
    return {
        "task": task,
        "library": str(library),
        "processes": str(num_processes),
        "iterations": str(iteration),
        "frames": f"{records[-1]['frames']:,}",
        "training return": f"{records[-1]['mean_return']:.2f}",
        "played return": number_after("Mean return", played),
        "pole (rad)": "-" if pole is None else f"{float(pole.group(1)):.3f}",
        "wall (s)": f"{records[-1]['wall_s']:.0f}",
        "in all (s)": f"{in_all:.0f}",
    }


def run(words: list[str], folder: Path) -> str:
    """Run python with these words in a folder; return what it printed."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def number_after(words: str, text: str) -> str:
    """Return the number that follows some words."""
    found = re.search(rf"{words} (-?[\d.]+)", text)
    return "-" if found is None else found.group(1)


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a markdown table."""
    head = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    return "\n".join([head, *("| " + " | ".join(row.values()) + " |" for row in rows)])


if __name__ == "__main__":
    raise SystemExit(main())
