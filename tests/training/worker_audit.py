"""The audits' messages on two ranks of real runs, after a change was planted on rank 1.

Usage: worker_audit.py FOLDER; it trains one iteration with each library and writes
``rank<i>.json``: messages by library and planted change, and the settings it trained with.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.program import configure_logging
from envlab.errors import RankDivergenceError
from envlab.training.launch import train_plan
from envlab.training.loop import Training
from tests.rl_games.worker import CARTPOLE
from tests.skrl.torch.worker import PPO
from tests.trained import session_of

SMALL = [
    *("--task=Isaac-Cartpole-v0", "--device=cpu", "--num_envs=16", "--lr_scaling=linear"),
    *("agent.algorithm.schedule=fixed", "agent.algorithm.learning_rate=1e-3"),
    "agent.actor.obs_normalization=true",
]
SHARED = [flag for flag in CARTPOLE if not flag.startswith("--num_envs")] + ["--global_num_envs=64"]
FLAGS = {"rsl_rl": SMALL, "rl_games": SHARED, "skrl": PPO}

Plant = contextlib.AbstractContextManager[Any]
audit = Training.audit


@contextlib.contextmanager
def changed(tensor: torch.Tensor, value: float | None = None) -> Iterator[None]:
    """Change the first element, by the smallest step if no value is given."""
    first = tensor.detach().reshape(-1)[:1]
    before = first.clone()
    first.copy_(torch.nextafter(before, before + 1) if value is None else torch.tensor([value]))
    try:
        yield
    finally:
        first.copy_(before)


@contextlib.contextmanager
def seeded(seed: Callable[[int], Any], number: int) -> Iterator[None]:
    """Give torch or NumPy the seed of rank 0."""
    state = torch.get_rng_state(), np.random.get_state()
    seed(number)
    try:
        yield
    finally:
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])


def plants_in_rsl_rl(training: Training) -> dict[str, Plant]:
    """Return the changes to plant on rank 1, by name."""
    runner, env = training.learner, training.env
    weight = runner.alg.get_policy().mlp[0].weight
    moment = runner.alg.optimizer.state[runner.alg.optimizer.param_groups[0]["params"][1]]
    group = runner.alg.optimizer.param_groups[0]
    ids = env.random.env_ids - training.context.rank * env.num_envs
    return {
        "nothing": contextlib.nullcontext(),
        "parameter": changed(weight),
        "optimizer moment": changed(moment["exp_avg"]),
        # private: rsl_rl's normaliser has no other name for it
        "normaliser mean": changed(runner.alg.get_policy().obs_normalizer._mean),
        "learning rate of the optimizer": mock.patch.dict(group, lr=0.5),
        "frames": mock.patch.object(training.metrics, "frames", 1),
        "environment seed": mock.patch.object(env.random, "base_seed", 8),
        "draw counter": mock.patch.object(env.random, "_tick", 99),
        "environment streams": mock.patch.object(env.random, "env_ids", ids),
        "overlapping environments": mock.patch.object(env.random, "env_ids", ids + 1),
        "torch generator": seeded(torch.manual_seed, 42),
        "numpy generator": seeded(np.random.seed, 42),
    }


def on_both_ranks(training: Training) -> dict[str, Plant]:
    """Return changes for both ranks: the same NaN, and zeros of different signs."""
    weight = training.learner.alg.get_policy().mlp[0].weight
    zero = 0.0 if training.context.is_main else -0.0
    return {"nan": changed(weight, float("nan")), "zeros": changed(weight, zero)}


def plants_in_rl_games(training: Training) -> dict[str, Plant]:
    """Return rl_games' own normalisers and counters, changed."""
    agent = training.learner.agent
    return {
        "normaliser mean": changed(agent.model.running_mean_std.running_mean),
        "epoch": mock.patch.object(agent, "epoch_num", 7),
        "frame": mock.patch.object(agent, "frame", 7),
        "learning rate": mock.patch.object(agent, "last_lr", 0.5),
    }


def plants_in_skrl(training: Training) -> dict[str, Plant]:
    """Return skrl's own scalers and schedulers, changed."""
    agent = training.learner.agent
    return {
        # private: nor has skrl's agent for its own
        "normaliser mean": changed(agent._observation_preprocessor.running_mean),
        "scheduler": mock.patch.object(agent.scheduler, "_last_lr", [0.5]),
        "counter": mock.patch.object(agent, "_rollout", 7),
    }


def sizes(agent: Any) -> dict[str, int]:
    """Return how rl_games divides an iteration."""
    names = ("num_actors", "minibatch_size", "num_minibatches")
    return {name: int(getattr(agent, name)) for name in names}


def say(training: Training, rate: float, plant: Plant) -> str | None:
    """Return the audit's message while a change is planted."""
    with plant:
        try:
            audit(training, 1, rate)
        except RankDivergenceError as error:
            return str(error)
    return None


def messages(library: str, context: DistributedContext) -> dict[str, Any]:
    """Train one iteration; return the audits' messages and the settings trained with."""
    found: dict[str, Any] = {}
    plants = {"rsl_rl": plants_in_rsl_rl, "rl_games": plants_in_rl_games, "skrl": plants_in_skrl}

    def planted(training: Training, iteration: int, rate: float) -> None:
        for name, harm in plants[library](training).items():
            here = contextlib.nullcontext() if context.is_main else harm
            found[name] = say(training, rate, here)
        if library == "rl_games":
            found["sizes"] = sizes(training.learner.agent)
        if library == "rsl_rl":
            found["rate"] = rate
            found["learning rate"] = say(training, rate + context.rank, contextlib.nullcontext())
            saver = training.saver
            saver.good_checkpoint = "the/last.pt" if context.is_main else None
            found["checkpoint"] = say(training, rate + context.rank, contextlib.nullcontext())
            saver.good_checkpoint = None
            for name, harm in on_both_ranks(training).items():
                found[name] = say(training, rate, harm)

    words = [*FLAGS[library], "--seed=42", "--max_iterations=1", "--distributed"]
    with mock.patch.object(Training, "audit", planted):
        train_plan(session_of(library, words), context, InterruptFlag())
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    os.chdir(folder)
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    found = {library: messages(library, context) for library in FLAGS}
    (folder / f"rank{context.rank}.json").write_text(json.dumps(found))
    context.close()


if __name__ == "__main__":
    main()
