"""Try AllenAct's experiment files, and print a table of the results.

It takes the folder of a checkout of AllenAct's repository and fetches nothing. Each file of
``projects`` trains some frames in a separate process, like ``envlab train ddppo FILE --allenact``,
but without validation, and in short rollouts::

    python scripts/documentation/allenact_files.py ~/allenact
    python scripts/documentation/allenact_files.py ~/allenact --frames 1000 --only babyai
"""

from __future__ import annotations

import collections
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab.errors import ConfigurationError
from envlab.training.launch import train
from envlab_navigation.ddppo import build, experiment_words
from envlab_navigation.ddppo.allenact.packages import prepare_packages
from envlab_navigation.ddppo.pipeline import TrainingPipeline

NUM_ENVS, NUM_STEPS = 4, 64
"""Largest sizes of each rollout."""
TIMEOUT_S = 240.0


def main(argv: Sequence[str]) -> int:
    """Print the table, and how many files train; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder of AllenAct's repository")
    parser.add_argument("--frames", type=int, default=200, help="to train each for")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    flags = parser.parse_args(argv)
    folder = flags.checkout / "projects"
    if not folder.is_dir():
        raise ConfigurationError(
            f"{flags.checkout} has no folder projects. Give the folder of AllenAct's repository."
        )
    _preload(folder / "any.py")
    counts: collections.Counter[str] = collections.Counter()
    print("| file | what becomes of it |\n|---|---|")
    for path in experiments(folder, flags.only):
        kind, sentence = outcome(path, flags.frames)
        counts[kind] += 1
        print(f"| {path.relative_to(folder)} | {sentence} |", flush=True)
    total = sum(counts.values())
    print(f"\n{total} files: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 0


def experiments(folder: Path, only: str = "") -> Iterator[Path]:
    """Yield the files below a folder that are not packages."""
    for path in sorted(folder.rglob("*.py")):
        if path.name != "__init__.py" and only in str(path):
            yield path


def outcome(path: Path, frames: int) -> tuple[str, str]:
    """Return a file's kind and a sentence: success, or its error without its path."""
    with tempfile.TemporaryFile("w+") as shown:
        code = _in_child(path, frames, shown.fileno())
        shown.seek(0)
        lines = [line for line in shown.read().splitlines() if line.strip()] or ["no message"]
    if code is None:
        return "late", f"no end after {TIMEOUT_S:.0f} s"
    if code == 0:
        return "train", "trains"
    said = [line for line in lines if line.startswith("error: ")]
    if code == 2 and said:
        return _kind(said[-1]), said[-1].removeprefix("error: ").replace(str(path), "it")
    return "fail", f"exit {code}: {lines[-1]}"


def _in_child(path: Path, frames: int, shown: int) -> int | None:
    """Train in a fork of this process; return its exit code, or None if it took too long."""
    child = os.fork()
    if child == 0:
        for number in (1, 2):
            os.dup2(shown, number)
        os._exit(guarded(lambda words: train("ddppo", words), _words(path, frames)))
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.2)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def _preload(path: Path) -> None:
    """Import common modules once, and make all files train in short rollouts."""
    assert build
    prepare_packages(path)
    settle = TrainingPipeline.__post_init__

    def settle_short(pipeline: TrainingPipeline) -> None:
        settle(pipeline)
        for stage in pipeline.pipeline_stages:
            stage.num_steps = min(stage.num_steps or NUM_STEPS, NUM_STEPS)

    setattr(TrainingPipeline, "__post_init__", settle_short)  # noqa: B010
    setattr(experiment_words, "_validates", lambda *_: False)  # noqa: B010


def _kind(sentence: str) -> str:
    """Return the kind of an error, in a word or two."""
    kinds = {"has no experiment": "no experiment", " raised ": "raise", " needs ": "need a package"}
    return next((kind for words, kind in kinds.items() if words in sentence), "are refused")


def _words(path: Path, frames: int) -> list[str]:
    return [
        str(path),
        "--allenact",
        f"--max_frames={frames}",
        f"--num_envs={NUM_ENVS}",
        "--device=cpu",
    ]


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
