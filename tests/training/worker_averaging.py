"""Each of two ranks trains libraries with ``--grad_sync local``, in one launch.

Usage: worker_averaging.py FOLDER JOB...; it trains each of these ``JOBS``, in a folder of its name,
and writes ``<job>_rank<i>.pt``: for each average its iteration, the learner before and after it.
"""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.program import configure_logging
from envlab.learner import Learner
from envlab.training import averaging
from envlab.training.averaging import Averaging
from envlab.training.launch import train_plan
from envlab.training.start import start_of
from tests.rl_games.worker import CARTPOLE as RL_GAMES
from tests.skrl.torch.worker import MAPPO, PPO, SAC
from tests.trained import SMALL, session_of

FAST_SAC = [
    "--task=Isaac-Cartpole-v0",
    "--headless",
    "--device=cpu",
    "--num_envs=32",
    "agent.num_steps_per_env=8",
    "agent.algorithm.batch_size=64",
    "agent.warmup_steps=2",
]
LOCAL = ["--grad_sync=local", "--max_iterations=5", "agent.sync_interval=2"]
JOBS = {
    "rsl_rl": ("rsl_rl", SMALL),
    "rsl_rl, bfloat16": ("rsl_rl", [*SMALL, "agent.sync_dtype=bfloat16"]),
    "rsl_rl, summed": ("rsl_rl", SMALL),
    "rl_games": ("rl_games", RL_GAMES),
    "skrl": ("skrl", PPO),
    "sac": ("skrl", SAC),
    "mappo": ("skrl", MAPPO),
    "fast_sac": ("fast_sac", FAST_SAC),
}


def main() -> None:
    folder, *jobs = Path(sys.argv[1]), *sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    for job in jobs:
        library, words = JOBS[job]
        (folder / job).mkdir(exist_ok=True)
        context.gather(None)  # the folder exists
        os.chdir(folder / job)
        plan = start_of(session_of(library, [*words, *LOCAL]), [None])
        assert plan is not None
        torch.save(
            averages_of(plan, context, is_direct="summed" not in job),
            folder / f"{job}_rank{context.rank}.pt",
        )
    context.close()


def averages_of(plan: Any, context: DistributedContext, *, is_direct: bool) -> list[dict[str, Any]]:
    """Train; return this rank's averages."""
    found: list[dict[str, Any]] = []
    direct = averaging.DIRECT_BYTES if is_direct else 0
    average, learners = Averaging.average, []
    make = Averaging.__init__

    def made(own: Averaging, learner: Learner, *others: Any) -> None:
        learners.append(learner)
        make(own, learner, *others)

    def watched(own: Averaging, word: Any) -> list[Any]:
        before = contents(learners[0])
        words = average(own, word)
        number = context.progress.iteration
        found.append({"iteration": number, "before": before, "after": contents(learners[0])})
        return words

    with (
        mock.patch.object(Averaging, "__init__", made),
        mock.patch.object(Averaging, "average", watched),
        mock.patch.object(averaging, "DIRECT_BYTES", direct),
    ):
        train_plan(plan, context, InterruptFlag())
    return found


def contents(learner: Learner) -> dict[str, Any]:
    """Return copies of a learner's values by path, and its learning rates as ``rates``."""
    groups = [group for one in learner.all_optimizers() for group in one.param_groups]
    rates = torch.tensor([float(group["lr"]) for group in groups], dtype=torch.float64)
    return copy.deepcopy(flatten(learner.model_state())) | {"rates": rates}


if __name__ == "__main__":
    main()
