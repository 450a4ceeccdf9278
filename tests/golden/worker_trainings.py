"""Train several times on each of two ranks, in one launch: worker_trainings.py JOBS.

JOBS is a JSON list of ``[folder, library, words]``; each trains in its folder.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from envlab.training.launch import train


def main(jobs: list[tuple[str, str, list[str]]]) -> int:
    """Return the sum of the exit codes."""
    codes = []
    for folder, library, words in jobs:
        with contextlib.chdir(folder):
            codes.append(train(library, words))
    return sum(codes)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
