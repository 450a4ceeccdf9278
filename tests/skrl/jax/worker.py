"""The work of each of two ranks for this folder's tests, in one launch of skrl's launcher.

Usage: worker.py FOLDER; it trains in folders of FOLDER, and writes ``first_update_rank<i>.pt``,
``<job>_rank<i>.pt``, and learning rates to ``rates_rank<i>.pt``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging, guarded
from envlab.distributed.skrl_launcher import run_supervised
from envlab.skrl.jax import ranks
from envlab.skrl.jax.arrays import tree_state, view_in_torch
from envlab.skrl.learner import SkrlLearner
from tests.skrl import jobs
from tests.skrl.jax.first_update import first_update
from tests.skrl.jax.runs import PPO, SAC


def local_columns(values: Any, _: object) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the moments of an unpooled scaler."""
    rows = view_in_torch(values).flatten(0, -2)
    return rows.mean(dim=0), rows.var(dim=0), len(rows)


def observations(trained: SkrlLearner) -> torch.Tensor:
    """Return a rollout's observations in the memory."""
    return view_in_torch(trained.agent.memory.tensors["observations"])


def train(folder: Path, context: DistributedContext, arguments: list[str]) -> dict[str, Any]:
    """Train in a folder; see :func:`tests.skrl.jobs.train`."""
    gradients: list[torch.Tensor] = []
    step = ranks.AveragingOptimizer.step

    def watched_step(optimizer: Any, *, grad: Any, model: Any, lr: Any = None) -> Any:
        if hasattr(model, "value"):  # SAC's entropy coefficient
            gradients.append(tree_state(grad)["params"])
        return step(optimizer, grad=grad, model=model, lr=lr)

    with mock.patch.object(ranks.AveragingOptimizer, "step", watched_step):
        found = jobs.train(context, folder, arguments, observations)
    return found | {"entropy_gradients": gradients}


def learning_rates(context: DistributedContext) -> dict[str, float]:
    """Return the learning rate after a divergence that is large on rank 1 alone."""
    from skrl.resources.schedulers.jax import KLAdaptiveLR

    stock = KLAdaptiveLR(kl_threshold=0.01)
    kl = 0.001 + 0.1 * context.rank
    pooled = ranks.pooled_schedule(stock, context)
    return {"stock": stock(0, lr=1e-3, kl=kl), "pooled": pooled(0, lr=1e-3, kl=kl)}


def main() -> int:
    folder = Path(sys.argv[1])
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    updates = {"pooled": first_update(context)}
    with mock.patch.object(ranks, "_column_moments", local_columns):
        updates["local_scalers"] = first_update(context)
    found = {
        "first_update": updates,
        "ppo": train(folder / "ppo", context, [*PPO, "--max_iterations=4"]),
        "sac": train(folder / "sac", context, [*SAC, "--max_iterations=2"]),
        "rates": learning_rates(context),
    }
    for name, values in found.items():
        torch.save(values, folder / f"{name}_rank{context.rank}.pt")
    context.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(run_supervised(lambda: guarded(lambda _: main(), sys.argv[1:])))
