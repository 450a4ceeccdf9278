"""One update on a batch that is the same for any number of ranks, of which each takes its part."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.collection import Transitions
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.replay import Batch
from tests.small_runs import env_of

TASK = "Isaac-Cartpole-v0"
BATCH, NUM_ENVS = 48, 16
SMALL = {
    "num_steps_per_env": 4,
    "warmup_steps": 2,
    "actor": {"hidden_dims": [16]},
    "critic": {"hidden_dims": [16], "num_atoms": 11},
    "replay": {"size": 64 * NUM_ENVS},
    "algorithm": {"batch_size": BATCH, "n_step": 2, "updates_per_step": 2},
}


def make_learner(
    context: DistributedContext, dtype: torch.dtype = torch.float32, **changes: Any
) -> FastSacLearner:
    """Return a learner of ``NUM_ENVS`` environments in all, with the same weights everywhere."""
    env = env_of(TASK, NUM_ENVS // context.world_size, context)
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    try:
        return FastSacLearner(env, merge(FastSacCfg(), SMALL | changes, "agent"), context)
    finally:
        torch.set_default_dtype(torch.float32)


def batch_of(context: DistributedContext) -> Batch:
    """Return this rank's part of a batch."""
    generator = torch.Generator().manual_seed(2)
    rows = slice(
        context.rank * BATCH // context.world_size, (context.rank + 1) * BATCH // context.world_size
    )
    obs, after = torch.randn(2, BATCH, 4, generator=generator, dtype=torch.float64)
    actions = torch.rand(BATCH, 1, generator=generator, dtype=torch.float64) * 2.0 - 1.0
    rewards, discounts = torch.rand(2, BATCH, generator=generator, dtype=torch.float64)
    whole = Batch(obs, obs, actions, rewards, discounts, after, after)
    return Batch(*(values[rows] for values in whole))


def first_gradients(context: DistributedContext) -> dict[str, torch.Tensor]:
    """Return the gradients of one update, in float64 and of actions without chance.

    Each rank draws its own noise, and float32 rounds sums in another order (1e-6 of a gradient).
    """
    learner = make_learner(context, torch.float64)
    with mock.patch("envlab.squashed.torch.randn_like", torch.zeros_like):
        learner.update(batch_of(context))
    networks = {"actor": learner.bare_actor, "critics": learner.bare_critics}
    return {
        f"{name}.{key}": parameter.grad.clone()
        for name, network in networks.items()
        for key, parameter in network.named_parameters()
        if parameter.grad is not None
    }


def observed(
    context: DistributedContext, sizes: list[int] | None = None
) -> tuple[torch.Tensor, FastSacLearner]:
    """Return all that an iteration observed, and the learner after it; list its batches' sizes."""
    learner = make_learner(context)
    seen, update = [], learner.update
    step = learner.collector.step

    def watched(on_step: Any) -> Transitions:
        taken = step(on_step)
        seen.append(taken.before["obs"])
        return taken

    def measured(batch: Batch) -> None:
        if sizes is not None:
            sizes.append(len(batch.rewards))
        update(batch)

    with (
        mock.patch.object(learner.collector, "step", watched),
        mock.patch.object(learner, "update", measured),
    ):
        learner.iterate(1, lambda *_: None)
    return torch.cat(seen), learner
