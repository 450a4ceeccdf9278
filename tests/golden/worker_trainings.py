"""Train several times on each of two ranks, in one launch: worker_trainings.py JOBS.

JOBS is a JSON list of ``[folder, library, words]``; each trains in its folder. The checkpoint of a
job may be a pattern, of which the job before has written the only file.
"""

from __future__ import annotations

import contextlib
import glob
import json
import sys
from pathlib import Path

from envlab.training.launch import train


def main(jobs: list[tuple[str, str, list[str]]]) -> int:
    """Return the sum of the exit codes."""
    codes = []
    for folder, library, words in jobs:
        with contextlib.chdir(folder):
            codes.append(train(library, list(map(found, words))))
    return sum(codes)


def found(word: str) -> str:
    """Return a word with the file that its pattern means."""
    flag, _, pattern = word.partition("=")
    if flag != "--checkpoint" or "*" not in pattern:
        return word
    (path,) = glob.glob(pattern)
    return f"{flag}={path}"


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
