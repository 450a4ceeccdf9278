"""One of two ranks whose rollouts are recorded, which writes ``rank<i>.pt`` to argv[1]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.rsl_rl.learner import RslRlLearner
from envlab.sim import host
from tests.graphs import capturable_on_a_cpu
from tests.rsl_rl.recorded import CARTPOLE, learner_of, losses_of, resume, saved_parts


def make(kind: str, context: DistributedContext) -> RslRlLearner:
    """Return a learner whose update is not recorded: gloo's collectives are not operations.

    One that is ``unrecorded`` has the library's rollout.
    """
    learner = learner_of(CARTPOLE, kind, context, episode_length_s=0.25)
    if kind == "unrecorded":
        learner.recorded_rollout = None
    learner.alg.recorded.recording.give_up()
    learner.start(6)
    torch.manual_seed(3 + context.rank)
    return learner


def train(learner: RslRlLearner) -> dict[str, Any]:
    """Return the losses of iterations before and after a copy of all state, and the policy."""
    losses, parts = losses_of(learner, 1, 3), saved_parts(learner)
    later = losses_of(learner, 4, 6)
    model = learner.alg.save()["actor_state_dict"]
    return {"losses": losses, "parts": parts, "later": later, "model": model}


def main() -> None:
    context = DistributedContext.create(distributed=True, device="cpu")
    host.HOST = set()
    with capturable_on_a_cpu():
        found: dict[str, Any] = {
            kind: train(make(kind, context)) for kind in ("unrecorded", "graphs")
        }
        again = make("graphs", context)
        resume(again, found["graphs"].pop("parts"))
        later = losses_of(again, 4, 6)
    del found["unrecorded"]["parts"]
    found["resumed"] = {"later": later, "model": again.alg.save()["actor_state_dict"]}
    recordings = again.recorded_rollout.recordings
    found["made"] = {name: one.is_made for name, one in recordings.items()}
    torch.save(found, Path(sys.argv[1]) / f"rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
