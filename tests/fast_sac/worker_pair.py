"""The work of each of two ranks for this folder's tests. Usage: worker_pair.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.distributed.seeding import seed_everything
from tests.fast_sac.updates import first_gradients, observed


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    folder = Path(sys.argv[1])
    update = {"pooled": {"gradients": first_gradients(context)}}
    torch.save(update, folder / f"first_update_rank{context.rank}.pt")
    seed_everything(1 + context.rank)
    sizes: list[int] = []
    obs, learner = observed(context, sizes)
    found = {
        "batch": sizes,
        "obs": [obs],
        "model": learner.model_state(),
        "updates": learner.num_updates,
    }
    torch.save(found, folder / f"sac_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
