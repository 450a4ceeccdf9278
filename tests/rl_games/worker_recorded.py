"""One of two ranks that update rl_games' PPO, which writes ``rank<i>.pt`` to argv[1]."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.rl_games.learner import RlGamesLearner
from envlab.rl_games.recorded_update import obstacle
from tests.graphs import capturable_on_a_cpu
from tests.rl_games.recorded import learner_of, tensors_of, unrecorded, update


def train(learner: RlGamesLearner, rank: int, seeds: range) -> dict[str, Any]:
    """Return what updates leave; each rank has rollouts of its own."""
    iterations = [update(learner, 100 * rank + seed) for seed in seeds]
    return {
        "losses": [one.losses for one in iterations],
        "rates": [one.learning_rate for one in iterations],
        "tensors": tensors_of(learner),
    }


def trainings(context: DistributedContext, schedule: str) -> dict[str, Any]:
    """Return trainings by the library, by ours, and by ours resumed.

    They are not by graphs: gloo's collectives are not operations.
    """

    def make() -> RlGamesLearner:
        learner = learner_of(context, schedule_type=schedule)
        learner.agent.model.double()
        return learner

    found: dict[str, Any] = {}
    for kind, learner in (("library", make()), ("ours", unrecorded(make()))):
        train(learner, context.rank, range(2))
        saved = copy.deepcopy(learner.model_state())
        found[kind] = train(learner, context.rank, range(2, 5))
    again = unrecorded(make())
    again.load_models({"model": saved})
    return found | {"resumed": train(again, context.rank, range(2, 5))}


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    with capturable_on_a_cpu():
        found = {schedule: trainings(context, schedule) for schedule in ("legacy", "standard")}
    reason = str(obstacle(learner_of(context, grad_sync="ddp").agent))
    torch.save(found | {"obstacle": reason}, Path(sys.argv[1]) / f"rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
