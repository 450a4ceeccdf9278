"""The work of each of two ranks for this folder's tests, in one launch.

Usage: worker_pair.py FOLDER FLAGS...; it trains in FOLDER with the flags, once per ``--grad_sync``,
and writes ``first_update_rank<i>.pt`` and ``<grad_sync>_rank<i>.pt``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.log import configure_logging
from envlab.rsl_rl import ppo
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.training.launch import train_session
from envlab.training.loop import Training
from tests.rsl_rl.first_update import first_update
from tests.trained import session_of


def local_moments(values: torch.Tensor, _: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the moments of an unpooled normalisation."""
    return values.mean(), values.std()


def train(context: DistributedContext, arguments: list[str]) -> dict[str, Any]:
    """Train; return this rank's final state, and all observations that it learned from."""
    found: dict[str, Any] = {"obs": []}
    run, update = Training.run, DistributedPPO.update

    def watched_update(algorithm: DistributedPPO) -> dict[str, float]:
        found["obs"].append(algorithm.storage.observations["policy"].flatten(0, 1).clone())
        return update(algorithm)

    def watched_run(training: Training, done: int) -> None:
        run(training, done)
        algorithm = training.learner.alg
        found["model"] = algorithm.save()
        found["learning_rate"] = algorithm.learning_rate
        found["wraps"] = type(algorithm.actor).__name__

    with (
        mock.patch.object(DistributedPPO, "update", watched_update),
        mock.patch.object(Training, "run", watched_run),
    ):
        train_session(session_of("rsl_rl", arguments), context, InterruptFlag())
    return found


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    updates = {"pooled": first_update(context), "library": first_update(context, "library")}
    with mock.patch.object(ppo, "pooled_moments", local_moments):
        updates["local"] = first_update(context)
    torch.save(updates, folder / f"first_update_rank{context.rank}.pt")
    for grad_sync in ("ddp", "library"):
        (folder / grad_sync).mkdir(exist_ok=True)
        context.gather(None)  # the folder exists
        os.chdir(folder / grad_sync)
        values = train(context, [*arguments, f"--grad_sync={grad_sync}"])
        torch.save(values, folder / f"{grad_sync}_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
