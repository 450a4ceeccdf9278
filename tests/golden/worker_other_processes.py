"""Go on with several runs on several ranks, in one launch: worker_other_processes.py JOBS.

JOBS is a JSON list of ``[folder, library, words]``. In its folder, each rank writes what it has
right after the restore, ``rank<i>.pt``, and trains on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.state import save
from envlab.training.launch import train
from envlab.training.saver import Saver

restore = Saver.restore


def restore_and_write(saver: Saver, *arguments: Any, **names: Any) -> None:
    restore(saver, *arguments, **names)
    torch.save(save(saver), f"rank{os.environ['RANK']}.pt")


def main(jobs: list[tuple[str, str, list[str]]]) -> int:
    """Return the sum of the exit codes."""
    codes = []
    for folder, library, words in jobs:
        with contextlib.chdir(folder), mock.patch.object(Saver, "restore", restore_and_write):
            codes.append(train(library, words))
    return sum(codes)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(Path(sys.argv[1]).read_text())))
