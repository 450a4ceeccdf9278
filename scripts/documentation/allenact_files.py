"""Try AllenAct's experiment files, and print a table of what becomes of each.

It takes the folder of a checkout of AllenAct's repository and fetches nothing. Each file of
``projects`` that defines an experiment trains some frames in a process of its own, as ``envlab
train ddppo FILE --allenact`` does, but without validation::

    python scripts/documentation/allenact_files.py ~/allenact
    python scripts/documentation/allenact_files.py ~/allenact --frames 1000 --only babyai
"""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.train.launch import train
from envlab_navigation.ddppo import experiment_words

NUM_ENVS = 4
TIMEOUT_S = 240.0


def main(argv: Sequence[str]) -> int:
    """Print the table, and how many files train; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder of AllenAct's repository")
    parser.add_argument("--frames", type=int, default=200, help="to train each for")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--logs", type=Path, default=Path("logs"), help="folder of the runs")
    parser.add_argument("--train", action="store_true", help="train the checkout, a file, itself")
    flags = parser.parse_args(argv)
    if flags.train:
        experiment_words._validates = lambda *_: False
        return train("ddppo", _words(flags.checkout, flags.frames))
    if not (flags.checkout / "projects").is_dir():
        raise ConfigurationError(
            f"{flags.checkout} has no folder projects. Give the folder of AllenAct's repository."
        )
    counts: collections.Counter[str] = collections.Counter()
    print("| file | what becomes of it |\n|---|---|")
    for path in experiments(flags.checkout, flags.only):
        what, sentence = outcome(path, flags.frames)
        counts[what] += 1
        print(f"| {path.relative_to(flags.checkout)} | {sentence} |", flush=True)
    total = sum(counts.values())
    print(f"\n{total} files: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
    return 0


def experiments(checkout: Path, only: str = "") -> Iterator[Path]:
    """Yield the files below ``projects`` that are no packages."""
    for path in sorted((checkout / "projects").rglob("*.py")):
        if path.name != "__init__.py" and only in str(path):
            yield path


def outcome(path: Path, frames: int) -> tuple[str, str]:
    """Return a file's kind and a sentence: what it trained, or its error without its path."""
    command = [sys.executable, "-W", "ignore", __file__, str(path), "--train"]
    start = time.monotonic()
    try:
        done = subprocess.run(
            [*command, f"--frames={frames}"], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return "late", f"no end after {TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return "train", f"trains ({time.monotonic() - start:.0f} s)"
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
    said = [line for line in lines if line.startswith("error: ")]
    if done.returncode == 2 and said:
        return _kind(said[-1]), said[-1].removeprefix("error: ").replace(str(path), "it")
    return "fail", f"exit {done.returncode}: {lines[-1]}"


def _kind(sentence: str) -> str:
    """Return what an error says, in a word or two."""
    kinds = {"has no experiment": "no experiment", " raised ": "raise", " needs ": "need a package"}
    return next((kind for words, kind in kinds.items() if words in sentence), "are refused")


def _words(path: Path, frames: int) -> list[str]:
    return [
        str(path),
        "--allenact",
        f"--max_frames={frames}",
        f"--num_envs={NUM_ENVS}",
        "--device=cpu",
        "env.num_workers=0",
    ]


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
