"""One of two ranks that update skrl's PPO, which writes ``rank<i>.pt`` to argv[1]."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.skrl.torch.learner import TorchLearner
from envlab.skrl.torch.recorded_update import obstacle
from tests.graphs import capturable_on_a_cpu
from tests.skrl.torch.recorded import (
    collect,
    in_double,
    learner_of,
    tensors_of,
    unrecorded,
    update,
)


def train(learner: TorchLearner, rank: int, seeds: range) -> dict[str, Any]:
    """Return what updates leave; each rank has rollouts of its own."""
    losses, rates = [], []
    for seed in seeds:
        collect(learner, 100 * rank + seed)
        losses.append(update(learner, 100 * rank + seed))
        rates.append(learner.learning_rate())
    return {"losses": losses, "rates": rates, "tensors": tensors_of(learner)}


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    # Not by graphs: gloo's collectives are not operations.
    make = {"library": lambda one: one, "ours": lambda one: unrecorded(one, context)}
    found: dict[str, Any] = {}
    with capturable_on_a_cpu():
        for name, prepare in make.items():
            learner = prepare(in_double(learner_of(context)))
            train(learner, context.rank, range(2))
            saved = copy.deepcopy(learner.model_state())
            found[name] = train(learner, context.rank, range(2, 5))
        again = unrecorded(in_double(learner_of(context)), context)
        again.load_models({"model": saved})
        found["resumed"] = train(again, context.rank, range(2, 5))
    wrapped = str(obstacle(learner_of(context, grad_sync="ddp").agent))
    found["obstacle"] = wrapped[wrapped.index("--grad_sync") :].removesuffix(" does not")
    torch.save(found, Path(sys.argv[1]) / f"rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
