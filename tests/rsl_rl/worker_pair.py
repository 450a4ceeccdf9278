"""The work of each of two ranks for this folder's tests, in one launch.

Usage: worker_pair.py FOLDER FLAGS...; it trains in FOLDER with the flags, once per ``--grad_sync``,
and writes ``first_update_rank<i>.pt``, ``minibatches_rank<i>.pt`` and ``<grad_sync>_rank<i>.pt``.
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
from envlab.distributed.program import configure_logging
from envlab.rsl_rl import ppo
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.training.launch import train_plan
from envlab.training.loop import Training
from envlab.training.start import start_of
from tests.rsl_rl.first_update import first_update
from tests.rsl_rl.minibatches import KINDS, REWARDS, paid_update
from tests.trained import session_of


def local_moments(values: torch.Tensor, _: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the moments of an unpooled normalisation."""
    return values.mean(), values.std()


def train(
    context: DistributedContext, arguments: list[str], kind: type[Any] = DistributedPPO
) -> dict[str, Any]:
    """Train; return this rank's final state, and all observations that it learned from."""
    found: dict[str, Any] = {"obs": []}
    run, update = Training.run, kind.update

    def watched_update(algorithm: Any) -> dict[str, float]:
        found["obs"].append(algorithm.storage.observations["policy"].flatten(0, 1).clone())
        losses: dict[str, float] = update(algorithm)
        return losses

    def watched_run(training: Training, done: int) -> None:
        run(training, done)
        algorithm = training.learner.alg  # type: ignore[attr-defined]
        found["model"] = algorithm.save()
        found["learning_rate"] = algorithm.learning_rate
        trained = algorithm.actor if kind is DistributedPPO else algorithm.student
        found["wraps"] = type(trained).__name__

    plan = start_of(session_of("rsl_rl", arguments), [None])
    assert plan is not None
    with (
        mock.patch.object(kind, "update", watched_update),
        mock.patch.object(Training, "run", watched_run),
    ):
        train_plan(plan, context, InterruptFlag())
    return found


def train_by_both(
    context: DistributedContext, folder: Path, arguments: list[str], kind: type[Any]
) -> None:
    """Train once per ``--grad_sync``, each in a folder of its name; write the results."""
    for grad_sync in ("ddp", "library"):
        (folder / grad_sync).mkdir(exist_ok=True)
        context.gather(None)  # the folder exists
        os.chdir(folder / grad_sync)
        values = train(context, [*arguments, f"--grad_sync={grad_sync}"], kind)
        torch.save(values, folder / f"{grad_sync}_rank{context.rank}.pt")


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    kinds = {"pooled": "ddp", "library": "library", "recorded": "recorded"}
    updates = {name: first_update(context, kind) for name, kind in kinds.items()}
    with mock.patch.object(ppo, "pooled_moments", local_moments):
        updates["local"] = first_update(context)
    torch.save(updates, folder / f"first_update_rank{context.rank}.pt")
    minibatches = {kind: paid_update(context, REWARDS[context.rank], kind) for kind in KINDS}
    torch.save(minibatches, folder / f"minibatches_rank{context.rank}.pt")
    train_by_both(context, folder, arguments, DistributedPPO)
    context.close()


if __name__ == "__main__":
    main()
