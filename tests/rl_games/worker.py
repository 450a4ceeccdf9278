"""The work of each of two ranks for the tests of rl_games, in one launch.

Usage: worker.py FOLDER; it trains once per entry of ``JOBS``, in a folder of that name,
and writes ``first_update_rank<i>.pt`` and ``<job>_rank<i>.pt``.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.program import configure_logging
from envlab.rl_games import learner, ppo
from envlab.rl_games.env import RlGamesVecEnv
from envlab.rl_games.ppo import DistributedAgent
from envlab.training.launch import train_plan
from envlab.training.loop import Training
from tests.rl_games.first_update import first_update
from tests.trained import SEER, session_of

CONFIG = "agent.params.config"
# Small, but with everything that must stay equal: normalisers, an adaptive learning rate, resets.
SMALL = [
    *("--headless", "--device=cpu", "--num_envs=32", "agent.save_interval=2"),
    "env.episode_length_s=0.4",  # 24 steps, so that time limits end episodes
    *(f"{CONFIG}.horizon_length=16", f"{CONFIG}.minibatch_size=256", f"{CONFIG}.mini_epochs=4"),
    *(f"{CONFIG}.normalize_input=true", f"{CONFIG}.normalize_value=true"),
]
CARTPOLE = ["--task=Isaac-Cartpole-v0", *SMALL, f"{CONFIG}.schedule_type=standard"]
CENTRAL = [
    "agent.params.env.obs_groups={obs: [policy], states: [policy]}",
    f"+{CONFIG}.central_value_config={{minibatch_size: 256, lr_schedule: linear}}",
]
LSTM = "+agent.params.network.rnn={name: lstm, units: 8, layers: 1}"
DISCRETE = ["--task=Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0", *SMALL, *CENTRAL]

SHORT = [f"{CONFIG}.horizon_length=8", f"{CONFIG}.normalize_input=true"]

JOBS: dict[str, list[str]] = {
    "ddp": [*CARTPOLE, "--max_iterations=4"],
    "library": [*CARTPOLE, "--max_iterations=4", "--grad_sync=library"],
    "recurrent": [*CARTPOLE, LSTM, "--max_iterations=2"],
    "discrete": [*DISCRETE, "--max_iterations=2"],
    "discrete_library": [*DISCRETE, "--max_iterations=2", "--grad_sync=library"],
    "images": [*SEER, *SHORT, "--max_iterations=2"],
}
"""Trainings by name; ``discrete`` has a central value network too."""


def local_moments(values: torch.Tensor, _: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the moments of an unpooled normalisation."""
    return values.mean(), values.std()


def stock_normalisers() -> AbstractContextManager[Any]:
    """Leave rl_games' own normalisers in place."""
    return mock.patch.object(learner, "pool_normalisers")


def train(context: DistributedContext, arguments: list[str]) -> Any:
    """Train; return this rank's final state, and all observations that it learned from."""
    found: dict[str, Any] = {"obs": [], "frames": []}
    run, prepare = Training.run, DistributedAgent.prepare_dataset

    def watched_prepare(agent: Any, batch: dict[str, Any]) -> None:
        obs = batch["obses"]
        found["obs"].append((obs["depth"] if isinstance(obs, dict) else obs).clone())
        prepare(agent, batch)

    def watched_info(_: RlGamesVecEnv, frame: int, *args: Any) -> None:
        found["frames"].append(frame)

    def watched_run(training: Training, done: int) -> None:
        run(training, done)
        learner: Any = training.learner
        found["model"] = learner.model_state()
        found["learning_rate"] = found["model"]["learning_rate"]
        found["wraps"] = type(learner.agent.model).__name__

    with (
        mock.patch.object(DistributedAgent, "prepare_dataset", watched_prepare),
        mock.patch.object(RlGamesVecEnv, "set_train_info", watched_info),
        mock.patch.object(Training, "run", watched_run),
    ):
        train_plan(session_of("rl_games", arguments), context, InterruptFlag())
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    updates = {"pooled": first_update(context), "library": first_update(context, "library")}
    with mock.patch.object(ppo, "pooled_moments", local_moments):
        updates["local_advantages"] = first_update(context)
    with stock_normalisers():
        updates["local_normalisers"] = first_update(context)
    torch.save(updates, folder / f"first_update_rank{context.rank}.pt")
    for name, arguments in JOBS.items():
        (folder / name).mkdir(exist_ok=True)
        context.gather(None)  # the folder exists
        os.chdir(folder / name)
        torch.save(train(context, arguments), folder / f"{name}_rank{context.rank}.pt")
    context.close()


if __name__ == "__main__":
    main()
