"""train.py, but rank 1 changes a parameter after the second update; exit codes to exit_<rank>."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from envlab.rsl_rl import ppo as rsl_rl
from envlab.train.launch import train


def main() -> int:
    update = rsl_rl.DistributedPPO.update
    num_updates = [0]

    def broken_update(algorithm: rsl_rl.DistributedPPO) -> dict[str, float]:
        losses = update(algorithm)
        num_updates[0] += 1
        if num_updates[0] == 2 and algorithm._context.rank == 1:
            with torch.no_grad():
                algorithm.get_policy().mlp[0].weight[0, 0] += 1e-6
        return losses

    rsl_rl.DistributedPPO.update = broken_update  # type: ignore[method-assign]
    code = train("rsl_rl", sys.argv[1:])
    Path(f"exit_{os.environ['RANK']}").write_text(str(code))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
