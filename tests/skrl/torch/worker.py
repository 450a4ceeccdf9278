"""The work of each of two ranks for the tests of skrl, in one launch.

Usage: worker.py FOLDER JOB...; it trains each of these ``JOBS``, in a folder of its name, and
writes ``first_update_rank<i>.pt`` and ``<job>_rank<i>.pt``.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.errors import EnvlabError
from envlab.skrl.learner import SkrlLearner
from envlab.skrl.torch import ranks
from tests.skrl.jobs import local_moments, train
from tests.skrl.torch.first_update import first_update
from tests.trained import SEER

SMALL = ["--headless", "--device=cpu", "--num_envs=32", "agent.save_interval=2"]
SCALERS = [
    "agent.agent.observation_preprocessor=RunningStandardScaler",
    "agent.agent.value_preprocessor=RunningStandardScaler",
    "agent.memory.replacement=false",  # so that scalers see each sample once
]
CARTPOLE = ["--task=Isaac-Cartpole-v0", *SMALL]
PPO = [*CARTPOLE, *SCALERS]
REPLAY = ["agent.num_steps_per_env=8", "agent.agent.learning_starts=4"]
SAC = [*CARTPOLE, "--algorithm=sac", *REPLAY, "agent.agent.batch_size=64"]
PENDULUM = ["--task=Isaac-Cart-Double-Pendulum-Direct-v0", *SMALL]
MAPPO = [*PENDULUM, "--algorithm=mappo", "agent.agent.mini_batches=2"]
DQN = ["--task=Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0", *SMALL, *REPLAY]

NET = "{name:net,input:OBSERVATIONS,layers:[32],activations:relu}"
AMP = [
    *("--task=Isaac-Humanoid-AMP-Walk-Direct-v0", "--algorithm=amp", "--num_envs=8", *SMALL[:2]),
    *(f"agent.models.{role}.network=[{NET}]" for role in ("policy", "value", "discriminator")),
    *("agent.motion_dataset.memory_size=64", "agent.reply_buffer.memory_size=96"),
    *("agent.agent.rollouts=6", "agent.agent.amp_batch_size=32", "agent.agent.learning_epochs=2"),
    *("agent.save_interval=2", "--max_iterations=4"),
]
LIBRARY = "--grad_sync=library"
JOBS: dict[str, list[str]] = {
    "ddp": [*PPO, "--max_iterations=4"],
    "library": [*PPO, "--max_iterations=4", LIBRARY],
    "sac": [*SAC, "--max_iterations=2"],
    "sac_library": [*SAC, "--max_iterations=2", LIBRARY],
    "mappo": [*MAPPO, "--max_iterations=4"],
    "mappo_library": [*MAPPO, "--max_iterations=4", LIBRARY],
    "dqn": [*DQN, "--algorithm=dqn", "--max_iterations=2"],
    "td3": [*CARTPOLE, "--algorithm=td3", *REPLAY, "--max_iterations=2"],
    "a2c": [*CARTPOLE, "--algorithm=a2c", "--max_iterations=2"],
    "amp": AMP,
    "amp_library": [*AMP, LIBRARY],
    "amp_resumed": [*AMP, "--resume"],  # from iteration 2 of the one before
    "images": [*SEER, "agent.agent.rollouts=8", "--max_iterations=2"],
    "kl_threshold": [*CARTPOLE, "agent.agent.kl_threshold=0.01"],
    "trpo": [*CARTPOLE, "--algorithm=trpo"],
    "cem": [*DQN[:1], *SMALL, "--algorithm=cem"],
}


def stock_scalers() -> AbstractContextManager[Any]:
    """Leave skrl's own scalers in place."""
    # private: skrl's own, for comparison
    stock = ranks.RunningStandardScaler._compute
    # private: skrl's own, for comparison
    return mock.patch.object(ranks.PooledScaler, "_compute", stock)


def observations(trained: SkrlLearner) -> torch.Tensor:
    """Return a rollout's observations in the memory."""
    found: torch.Tensor = trained.agent.memory.get_tensor_by_name("observations")
    return found


def first_updates(context: DistributedContext) -> dict[str, Any]:
    """Return the first update as envlab makes it, and as skrl would in each respect."""
    updates = {"pooled": first_update(context), "library": first_update(context, "library")}
    with mock.patch.object(ranks, "pooled_moments", local_moments):
        updates["local_advantages"] = first_update(context)
    with stock_scalers():
        updates["local_scalers"] = first_update(context)
    return updates


def main() -> None:
    folder, *names = Path(sys.argv[1]), *sys.argv[2:]
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    torch.save(first_updates(context), folder / f"first_update_rank{context.rank}.pt")
    for name in names:
        arguments = JOBS[name]
        if name == "amp_resumed":
            (checkpoint,) = (folder / "amp").rglob("model_2.pt")
            arguments = [*arguments, f"--checkpoint={checkpoint}"]
        try:
            values = train(context, folder / name, arguments, observations)
        except EnvlabError as error:
            values = {"error": str(error)}
        torch.save(values, folder / f"{name}_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
