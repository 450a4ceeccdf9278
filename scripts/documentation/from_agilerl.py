"""Write into docs/from_agilerl.md the table of results of AgileRL's files.

Each configuration is trained for 200 frames, in a separate process and scratch folder, and each
program runs with a shorter budget. It takes folders of checkouts of AgileRL's repository, and
fetches nothing; configurations are those of the first::

    python scripts/documentation/from_agilerl.py ~/AgileRL ~/AgileRL-0.1.13

Packages imported besides AgileRL (h5py, mpe2, pandas, pettingzoo, ...) should be installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab_bridge import outcomes
from envlab_populations.agilerl.file import read_agilerl

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_agilerl.md"
SHORT = ("--headless", "--device=cpu", "--max_frames=200", "--num_envs=16")
"""Flags that shorten training; 16 environments are a multiple of every file's population."""
TIMEOUT_S = 300
RUNS = "runs"
FOLDERS = ("demos", "tutorials", "benchmarking", "configs", "data")
"""Folders that programs of a checkout read."""
BUDGET = {
    **{"max_steps": 800, "evo_steps": 400, "max_episodes": 1, "learning_delay": 100},
    **{"block_steps": 4, "agent_warm_up": 2, "memory_size": 1000},
}
"""Replacements of budgets in programs and in a curriculum's lessons; of a data set, a
thousand steps are read."""


@dataclass(frozen=True)
class Row:
    """A file, and its result."""

    file: str
    algorithm: str
    outcome: str
    runs: bool


def tried(file: Path, name: str) -> Row:
    """Return the result of training from a configuration.

    Args:
        file: The file.
        name: Its name in the table.
    """
    algorithm = str(read_agilerl(file).text("algorithm.name"))
    words = [sys.executable, "-m", "envlab", "train", "evolution", f"--agilerl={file}", *SHORT]
    words.append("agent.population.eval_episodes=1")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    if done.returncode == 0:
        return Row(name, algorithm, "trains", True)
    if done.returncode != 2:
        raise ConfigurationError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    sentence = done.stderr.strip().splitlines()[-1].removeprefix("error: ")
    return Row(name, algorithm, sentence.replace(str(file), "the file"), False)


def ran(program: str, root: Path) -> str:
    """Return the result of a program.

    Args:
        program: Its path in a copy of the checkout, which is written to.
        root: The copy.
    """
    file = root / program
    file.write_text(shortened(file.read_text()))
    paths = [str(ROOT), str(ROOT / "source"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": ":".join(paths), "WANDB_MODE": "offline"}
    environment |= {"MPLBACKEND": "agg", "SDL_VIDEODRIVER": "dummy"}
    words = [sys.executable, "-m", "envlab_populations.agilerl", str(file)]
    for folder in (root, file.parent):  # some read files from their own folder
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"was running after {TIMEOUT_S} s"
        if "FileNotFoundError" not in done.stderr:
            break
    if done.returncode == 0:
        return RUNS
    last = [line for line in done.stderr.splitlines() if line.strip()][-1].strip()
    return last.removeprefix("error: ") if done.returncode == 2 else f"fails: {last}"


def shortened(text: str) -> str:
    """Return a program with a budget of a few hundred steps."""
    for name, value in BUDGET.items():
        text = re.sub(rf"\b({name}\"?\s*[=:]\s*)[\d_]+", rf"\g<1>{value}", text, flags=re.I)
    text = re.sub(r"(n_blocks = .* else )\d+", r"\g<1>1", text)
    return re.sub(r"(dataset_length = ).*", r"\g<1>1000", text)


def programs(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield the programs of a checkout, and their results."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in FOLDERS:
            if (checkout / name).is_dir():
                shutil.copytree(checkout / name, root / name)
        for lesson in root.rglob("lesson*.yaml"):
            lesson.write_text(shortened(lesson.read_text()))
        files = sorted(f for name in FOLDERS for f in (root / name).rglob("*.py"))
        for file in files:
            text = file.read_text()
            is_program = "__main__" in text or file.name.startswith(("demo_", "performance_"))
            if is_program and "agilerl" in text:
                name = str(file.relative_to(root))
                yield name, ran(name, root)


def rows(checkout: Path) -> Iterator[Row]:
    """Yield the configurations of a checkout.

    Raises:
        ConfigurationError: If it is not a checkout of AgileRL, or training fails other than with
            a sentence.
    """
    folder = checkout / "configs/training"
    if not folder.is_dir():
        raise ConfigurationError(
            f"{checkout} has no configs/training. Give the folder of a checkout of AgileRL."
        )
    for file in sorted(folder.rglob("*.yaml")):
        yield tried(file, str(file.relative_to(checkout)))


def table(found: Sequence[Row]) -> str:
    """Return counts and rows of configurations; files that end alike share a row."""
    runs = sum(row.runs for row in found)
    head = "| files | algorithm | what becomes of them |"
    rows = outcomes.alike(head, ((row.file, row.algorithm, plain(row.outcome)) for row in found))
    counts = f"Of {len(found)} configurations {runs} train, and {len(found) - runs} end in one"
    return f"{counts} sentence.\n\n{rows}\n"


def table_of_programs(name: str, found: Sequence[tuple[str, str]]) -> str:
    """Return counts and rows of a checkout's programs; those that end alike share a row."""
    rows = sorted(((file, plain(said)) for file, said in found), key=lambda row: row[1] != RUNS)
    runs = sum(said == RUNS for _, said in rows)
    table = outcomes.alike("| programs | what becomes of them |", rows)
    return f"\nOf {len(found)} programs of {name} {runs} run.\n\n{table}\n"


def plain(text: str) -> str:
    """Return a sentence that fits into a table."""
    text = re.sub(r"/\S*/(?=(demos|tutorials|benchmarking)/)", "", text)  # scratch folders
    text = re.sub(r"^\S+\.py, line \d+, (?=imports)", "", text)
    text = re.sub(r"^The program fails in \S+, (line \d+ \(.*\))\. Correct.*", r"fails in \1", text)
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def main(arguments: Sequence[str]) -> int:
    """Write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+", help="folders of AgileRL's checkouts")
    checkouts = [checkout.resolve() for checkout in parser.parse_args(arguments).checkouts]
    written = table(list(rows(checkouts[0])))
    for checkout in checkouts:
        written += table_of_programs(checkout.name, list(programs(checkout)))
    outcomes.write(PAGE, Path(__file__).name, written.rstrip())
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
