"""One of two ranks of test_overlap.py. Usage: worker_overlap.py FOLDER."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from envlab.training.launch import train
from tests.training.test_overlap import JOBS


def main() -> None:
    folder = Path(sys.argv[1])
    for name in ("sac", "ppo"):
        library, words = JOBS[name]
        words = [*words, "--distributed", "--max_iterations=4"]
        for part in ("whole", "again"):
            (folder / name / part).mkdir(parents=True, exist_ok=True)
            os.chdir(folder / name / part)
            assert train(library, words) == 0
            run = next((folder / name / "whole").glob("logs/*/*/*/run.json")).parent
            words += ["--resume", f"--checkpoint={run}/checkpoints/model_2.pt"]


if __name__ == "__main__":
    main()
