"""train.py, but rank 1 changes a parameter after the second update; exit codes to exit_<rank>."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch

from envlab.rsl_rl.distillation import DistributedDistillation
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.training.launch import train


def break_update(kind: Any) -> None:
    """Have the second update of an algorithm go wrong on rank 1."""
    update = kind.update
    num_updates = [0]

    def broken_update(algorithm: Any) -> dict[str, float]:
        losses: dict[str, float] = update(algorithm)
        num_updates[0] += 1
        if num_updates[0] == 2 and os.environ["RANK"] == "1":
            with torch.no_grad():
                algorithm.get_policy().mlp[0].weight[0, 0] += 1e-6
        return losses

    kind.update = broken_update


def main() -> int:
    for kind in (DistributedPPO, DistributedDistillation):
        break_update(kind)
    code = train("rsl_rl", sys.argv[1:])
    Path(f"exit_{os.environ['RANK']}").write_text(str(code))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
