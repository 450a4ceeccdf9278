"""A rank of a training in which one of them is killed, once.

Usage: worker_killed.py LIBRARY RANK FLAG...; it trains twice, under the names ``whole`` and
``killed``, which FLAGs must sweep. In the second training, rank RANK kills itself while it collects
for iteration 4, if torchrun has not restarted it yet. SAVE_ITERATION is the last that was saved.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import torch

from envlab.training.launch import train
from envlab.training.loop import Training

KILL_ITERATION = 4
SAVE_ITERATION = 2


def main() -> int:
    library, rank, *flags = sys.argv[1:]
    is_victim = os.environ["RANK"] == rank and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    add_step = Training.add_step

    def add_fatal_step(
        training: Training, rewards: torch.Tensor, ended: torch.Tensor, info: Mapping[str, Any]
    ) -> None:
        number = training.context.progress.iteration
        if is_victim and "killed" in training.directory.name and number == KILL_ITERATION:
            os.kill(os.getpid(), signal.SIGKILL)
        add_step(training, rewards, ended, info)

    Training.add_step = add_fatal_step  # type: ignore[method-assign]
    return train(library, [*flags, "--distributed", f"--max_iterations={KILL_ITERATION}", "-m"])


if __name__ == "__main__":
    raise SystemExit(main())
