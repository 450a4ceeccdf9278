"""What each of two ranks does for test_skrl_jax.py, in one launch of skrl's launcher.

Usage: skrl_jax_worker.py FOLDER; it trains in folders of FOLDER, and writes ``rank<i>.pt``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.cli import guarded
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import InterruptFlag
from envlab.distributed.log import configure_logging
from envlab.distributed.skrl_launcher import run_supervised
from envlab.errors import RankDivergenceError
from envlab.rl.command.arguments import train_parser
from envlab.rl.command.session import compose_session
from envlab.rl.command.train import train_session
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.jax import learner as skrl_jax
from envlab.rl.skrl.jax import ranks as skrl_jax_ranks
from envlab.rl.skrl.jax.arrays import tree_state, view_in_torch
from tests.rl.skrl.jax.first_update import first_update
from tests.rl.skrl.jax.runs import PPO, SAC


def local_moments(values: torch.Tensor, _: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what an unpooled normalisation would use."""
    return values.mean(), values.std()


def local_columns(values: Any, _: object) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return what an unpooled scaler would use."""
    rows = view_in_torch(values).flatten(0, -2)
    return rows.mean(dim=0), rows.var(dim=0), len(rows)


def train(folder: Path, context: DistributedContext, arguments: list[str]) -> dict[str, Any]:
    """Train in a folder; return what this rank ends with, and what it learned from."""
    folder.mkdir(exist_ok=True)
    context.gather(None)  # the folder exists
    os.chdir(folder)
    flags, overrides = train_parser("skrl").parse_with_overrides(arguments)
    default = SkrlCfg.of(flags.algorithm or "ppo", "jax")
    session = compose_session(flags, overrides, library="skrl", agent_cfg=default)
    found: dict[str, Any] = {"obs": [], "entropy_gradients": []}
    learn, finish = skrl_jax.JaxLearner.learn, skrl_jax.JaxLearner._finish
    step = skrl_jax_ranks.AveragingOptimizer.step

    def watched_step(optimizer: Any, *, grad: Any, model: Any, lr: Any = None) -> Any:
        if hasattr(model, "value"):  # SAC's entropy coefficient
            found["entropy_gradients"].append(tree_state(grad)["params"])
        return step(optimizer, grad=grad, model=model, lr=lr)

    def watched_finish(learner: Any, *args: Any) -> None:
        if not learner._kept_memories():
            seen = view_in_torch(learner.agent.memory.tensors["observations"])
            found["obs"].append(seen.flatten(0, 1).clone())
        finish(learner, *args)

    def watched_learn(learner: Any, *args: Any) -> None:
        learn(learner, *args)
        found["model"], found["learning_rate"] = learner.model_state(), learner.learning_rate()

    with (
        mock.patch.object(skrl_jax_ranks.AveragingOptimizer, "step", watched_step),
        mock.patch.object(skrl_jax.JaxLearner, "_finish", watched_finish),
        mock.patch.object(skrl_jax.JaxLearner, "learn", watched_learn),
    ):
        train_session(session, context, InterruptFlag(), library="skrl", build=skrl_jax.build)
    return found


def train_unaveraged(folder: Path, context: DistributedContext, name: str) -> str:
    """Return what the audit says when a part of the adapter is replaced by doing nothing."""
    with mock.patch.object(skrl_jax, name, return_value=None):
        try:
            train(folder, context, [*PPO, "--distributed", "--max_iterations=1"])
        except RankDivergenceError as error:
            return str(error)
    return ""


def learning_rates(context: DistributedContext) -> dict[str, float]:
    """Return the learning rate after a divergence that is large on rank 1 alone."""
    from skrl.resources.schedulers.jax import KLAdaptiveLR

    stock = KLAdaptiveLR(kl_threshold=0.01)
    kl = 0.001 + 0.1 * context.rank
    pooled = skrl_jax_ranks.pooled_schedule(stock, context)
    return {"stock": stock(0, lr=1e-3, kl=kl), "pooled": pooled(0, lr=1e-3, kl=kl)}


def main() -> int:
    folder = Path(sys.argv[1])
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    found: dict[str, Any] = {"first_update": first_update(context)}
    with mock.patch.object(skrl_jax_ranks, "pooled_moments", local_moments):
        found["local_advantages"] = first_update(context)
    with mock.patch.object(skrl_jax_ranks, "_column_moments", local_columns):
        found["local_scalers"] = first_update(context)
    found["learning_rates"] = learning_rates(context)
    found["threads"] = [
        task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()
    ]
    found["ppo"] = train(folder / "ppo", context, [*PPO, "--distributed", "--max_iterations=4"])
    found["sac"] = train(folder / "sac", context, [*SAC, "--distributed", "--max_iterations=2"])
    found["unaveraged"] = train_unaveraged(folder / "unaveraged", context, "_average_over_ranks")
    found["local_world_size"] = context.local_world_size
    torch.save(found, folder / f"rank{context.rank}.pt")
    context.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(run_supervised(lambda: guarded(lambda _: main(), sys.argv[1:])))
