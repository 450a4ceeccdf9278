"""Trains twice on a disk that fills up; argv: where to leave the runs, then flags of train.py.

The runs differ in their names: ``recovered`` gets room again before its end, ``lost`` does not.
It runs in the disk's root.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

from envlab.learner import IterationRecord
from envlab.training.launch import train
from envlab.training.loop import Training

FULL_FROM, FULL_TO, END = 3, 9, 12
"""Iterations before which the disk is filled and emptied, and the last one."""
FILLER = Path("filler")


def fill() -> None:
    """Write until there is no room for another page."""
    with FILLER.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def main() -> int:
    """Train; return the exit code."""
    write = Training.write

    def write_to_a_small_disk(training: Training, record: IterationRecord) -> None:
        recovers = "recovered" in training.directory.name
        if training.context.is_main:
            if record.iteration == FULL_FROM:
                fill()
            if record.iteration == FULL_TO and recovers:
                FILLER.unlink()
        write(training, record)

    Training.write = write_to_a_small_disk  # type: ignore[method-assign]
    left, *flags = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1] / "fake_wandb"))
    os.environ["FAKE_WANDB_CALLS"] = str(Path(left, "wandb.jsonl"))
    code = train("rsl_rl", flags)
    if os.environ["RANK"] == "0":
        shutil.copytree("logs", Path(left, "logs"))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
