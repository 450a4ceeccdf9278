"""The work of each of several ranks for this folder's tests, in one launch.

Usage: worker_ranks.py FOLDER FLAGS...; writes ``rank<i>.pt`` into FOLDER, and trains in it: once
    with a straggler, and once more by the lengths of its rollouts, without one; then the experiment
    in
FOLDER from its first stage to its last, and again from within the first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.program import configure_logging
from envlab.libraries import get_library
from envlab.training.arguments import train_parser
from envlab.training.launch import train_plan
from envlab.training.loop import Training
from envlab.training.plan import plan_run
from envlab.training.start import decide_start
from envlab_navigation.ddppo.experiment_words import prepare
from envlab_navigation.ddppo.objective import Gradients
from envlab_navigation.ddppo.preemption import Preemption
from tests.navigation.ddppo.unequal import batch_of, make_objective, share_of, terms

NUM_STEPS, WAITS_AT = 16, 4
"""Of a rollout; the straggler's step, counted from 0, at which all others are done."""
EXPERIMENT_FILE = "stages_experiment.py"
STAGED = ["--headless", "--distributed", "agent.save_interval=1", "agent.audit_interval=1"]


def wait_for_others(preemption: Preemption, needed: int) -> None:
    """Wait until enough others are done, as a straggler would find them."""
    end = time.monotonic() + 60.0
    # private: the ranks' count is otherwise visible by its effect alone
    while preemption._store.add(preemption._key, 0) < needed:
        assert time.monotonic() < end
        time.sleep(0.001)


def gradients(context: DistributedContext) -> dict[str, torch.Tensor]:
    """Return the gradients of all ranks' samples, of which each rank has another number."""
    objective = make_objective()
    found = Gradients(objective, context)
    batch, share = batch_of(context.rank), share_of(context.rank, context.world_size)
    found.compute(batch, 0, terms(objective), stage=0, share=share)
    return {name: values.grad for name, values in objective.named_parameters()}


def train(context: DistributedContext, folder: Path, arguments: list[str], number: int) -> Any:
    """Train in a folder, as the launch's training of this number; return the model's end."""
    if context.is_main:
        folder.mkdir()
    context.gather(None)
    os.chdir(folder)
    library = get_library("ddppo")
    flags, overrides = train_parser(library).parse_with_overrides(prepare("train", arguments))
    plan = plan_run(flags, overrides, library)
    found: list[Any] = []
    run = Training.run

    def watched_run(training: Training, done: int) -> None:
        run(training, done)
        # private: each rank's own state, which files have of rank 0 alone
        found.append(training.learner.model_state())

    with mock.patch.object(Training, "run", watched_run):
        started = decide_start(plan, context, number=number)
        assert started is not None
        train_plan(started, context, InterruptFlag())
    return found[0]


@contextlib.contextmanager
def straggler(context: DistributedContext) -> Iterator[None]:
    """Make the last rank late in the second rollout; the others are whole, however slow."""
    should_stop = Preemption.should_stop

    def late(preemption: Preemption, step: int) -> bool:
        # private: the number of the rollout
        if preemption._key != "2" or context.is_main:
            return False
        if step == WAITS_AT:
            wait_for_others(preemption, 1)
        return should_stop(preemption, step)

    with mock.patch.object(Preemption, "should_stop", late):
        yield


def main() -> None:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    found: dict[str, Any] = {"gradients": gradients(context)}
    with straggler(context):
        threshold = "--preemption_threshold=0.7"
        found["cut"] = train(context, folder / "cut", [*arguments, threshold], 0)
    (run,) = (folder / "cut").glob("logs/*/*/*")
    replay = f"--replay_rollouts={run}"
    found["replayed"] = train(context, folder / "replayed", [*arguments, replay], 1)
    staged = [str(folder / EXPERIMENT_FILE), "--config_kwargs", '{"num_ranks": 2}', *STAGED]
    found["staged"] = train(context, folder / "staged", staged, 2)
    (run,) = (folder / "staged").glob("logs/*/*/*")
    resume = ["--resume", f"--checkpoint={run}/checkpoints/model_1.pt"]
    found["resumed"] = train(context, folder / "resumed", [*staged, *resume], 3)
    torch.save(found, folder / f"rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
