"""Write into docs/from_agilerl.md the table of AgileRL's files and what becomes of each.

Each configuration is trained for 200 frames, in a process and a scratch folder of its own; of the
programs it is read which algorithms they import. It takes the folder of a checkout of AgileRL's
repository, and fetches nothing::

    python scripts/documentation/from_agilerl.py ~/AgileRL
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab_populations.evolution.agilerl_file import read_agilerl
from envlab_populations.evolution.agilerl_words import ALGORITHMS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from_agilerl.md"
BEGIN, END = "<!-- from_agilerl.py -->\n", "<!-- until here -->\n"
SHORT = ("--headless", "--device=cpu", "--max_frames=200", "--num_envs=16")
"""What cuts a training short; 16 environments are a multiple of every file's population."""
TIMEOUT_S = 300


@dataclass(frozen=True)
class Row:
    """A file, and what becomes of it."""

    file: str
    algorithm: str
    outcome: str
    runs: bool


def tried(file: Path, name: str) -> Row:
    """Return what becomes of a configuration, by training from it.

    Args:
        file: The file.
        name: What the table calls it.
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


def read(program: Path, name: str) -> Row:
    """Return what becomes of a program, by the algorithms that it imports."""
    text = program.read_text()
    found = [
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == "agilerl.algorithms"
        for alias in node.names
    ]
    known = [algorithm for algorithm in found if algorithm.lower() in ALGORITHMS]
    outcome = "does not run"
    if known and not re.search("_rnn_|_custom_", name):
        outcome += "; its settings can be written into a file"
    return Row(name, ", ".join(found), outcome, False)


def rows(checkout: Path) -> Iterator[Row]:
    """Yield the configurations and programs of a checkout.

    Raises:
        ConfigurationError: If it is no checkout of AgileRL's, or training fails otherwise than by
            a sentence.
    """
    folder = checkout / "configs/training"
    if not folder.is_dir():
        raise ConfigurationError(
            f"{checkout} has no configs/training. Give the folder of a checkout of AgileRL."
        )
    for file in sorted(folder.rglob("*.yaml")):
        yield tried(file, str(file.relative_to(checkout)))
    for program in sorted(checkout.glob("demos/**/demo_*.py")):
        yield read(program, str(program.relative_to(checkout)))


def table(found: Sequence[Row]) -> str:
    """Return counts and rows; files that end alike share a row."""
    configurations = [row for row in found if row.file.endswith(".yaml")]
    runs = sum(row.runs for row in configurations)
    lines = [
        f"Of {len(configurations)} configurations {runs} train, and "
        f"{len(configurations) - runs} end in one sentence.\n",
        "| files | algorithm | what becomes of them |",
        "|---|---|---|",
    ]
    alike: dict[tuple[str, str], list[str]] = {}
    for row in found:
        outcome = re.sub(r"\s+", " ", row.outcome).replace("|", "\\|")
        alike.setdefault((row.algorithm, outcome), []).append(f"`{row.file}`")
    for (algorithm, outcome), files in alike.items():
        lines.append(f"| {', '.join(files)} | {algorithm} | {outcome} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder of a checkout of AgileRL")
    checkout = parser.parse_args(arguments).checkout.resolve()
    written = table(list(rows(checkout)))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{written}{END}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
