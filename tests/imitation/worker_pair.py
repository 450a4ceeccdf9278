"""The work of each of two ranks for this folder's tests. Usage: worker_pair.py FOLDER FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.distributed.seeding import seed_everything
from envlab.errors import ConfigurationError
from tests.imitation.files import LENGTHS, learner_of, write_file


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    seed_everything(1)
    learner = learner_of(path, context, batch_size=16)
    rows = [learner.demonstrations.batch(1, number, 16) for number in range(6)]
    learner.update()
    gradients = {name: values.grad for name, values in learner.bare_policy.named_parameters()}
    update = {"pooled": {"gradients": gradients}}
    torch.save(update, folder / f"first_update_rank{context.rank}.pt")
    for _ in range(5):
        learner.update()
    found = {
        "model": learner.model_state(),
        "obs": [learner.demonstrations.obs["policy"][:9]],
        "rows": [len(some) for some in rows],
        "problem": "",
    }
    few = folder / "few.hdf5"
    context.once(lambda: write_file(few, lengths=LENGTHS[:1]) and None)
    try:
        learner_of(few, context)
    except ConfigurationError as error:
        found["problem"] = str(error)
    torch.save(found, folder / f"bc_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
