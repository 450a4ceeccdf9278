"""Quantities that skrl on PyTorch computes from one rank's samples, computed over all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.distributed.statistics import Moments, batch_moments, pooled_moments
from envlab.skrl.library import load_skrl

load_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402

ComputeGae = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""skrl's function: returns and normalised advantages, ``(num_steps, num_envs, 1)``."""


def join_ranks(context: DistributedContext) -> None:
    """Set this process's rank in skrl.

    skrl reads the launcher's variables at import and offers no setter, hence the private names.
    """
    config = load_skrl().config.torch
    config._rank, config._local_rank = context.rank, context.local_rank
    config._world_size, config._is_distributed = context.world_size, context.is_distributed
    config.device = context.device


def pooled_advantages(stock: ComputeGae, context: DistributedContext) -> ComputeGae:
    """Return skrl's ``compute_gae``, changed to end with an episode and normalise over all ranks.

    Without ``time_limit_bootstrap``, skrl 2.1.1 lets values and advantages run across a time limit
    into the next episode; skrl 1.4.3, for which Isaac Lab's settings were made, did not. Here the
    setting only decides whether the agent adds the final state's value to the last reward.
    """

    def compute_gae(**values: Any) -> tuple[torch.Tensor, torch.Tensor]:
        returns, advantages = stock(**values | {"time_limit_bootstrap": True})  # cut at both ends
        if not context.is_distributed:
            return returns, advantages
        advantages = returns - values["values"]
        mean, std = pooled_moments(advantages, context)
        return returns, (advantages - mean) / (std + 1e-8)

    return compute_gae


class PooledScaler(RunningStandardScaler):
    """skrl's ``RunningStandardScaler`` with running statistics over all ranks' data.

    Its tensors are never replaced, so that processes can share them.
    """

    context: ClassVar[DistributedContext]

    @classmethod
    def of(cls, context: DistributedContext) -> type[PooledScaler]:
        """Return the class for a context; skrl makes the objects, and copies their arguments."""
        return type(cls.__name__, (cls,), {"context": context})

    def _compute(
        self, x: torch.Tensor, *, train: bool = False, inverse: bool = False
    ) -> torch.Tensor:
        if train and self.context.is_distributed:
            rows = x.reshape(-1, x.shape[-1])
            batch = batch_moments(rows, self.context, near=self.running_mean)
            count = batch.num_samples
            unbiased = batch.variance * (count / (count - 1))  # like skrl's
            self._parallel_variance(batch.mean, unbiased, count)
            train = False
        result: torch.Tensor = super()._compute(x, train=train, inverse=inverse)
        return result

    def _parallel_variance(self, mean: torch.Tensor, variance: torch.Tensor, count: Any) -> None:
        """Merge a batch's moments like skrl, but in place."""
        own = Moments(self.running_mean, self.running_variance, self.current_count)
        own.merge_(Moments(mean, variance, count))


class SkrlDDP(PolicyDDP):
    """A skrl model in DDP: agents call :meth:`act`, which must pass through DDP's forward."""

    def act(self, inputs: dict[str, Any], *, role: str = "") -> Any:
        return self(inputs, role=role)

    def reduce_parameters(self) -> None:
        """Do nothing: DDP has averaged the gradients during the backward pass."""

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: DDP did it at construction."""


def wrap_models(models: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's models by role in DDP, except target networks, which have no gradients."""
    wrapped: dict[int, SkrlDDP] = {}
    result = {}
    for role, model in models.items():
        if role.startswith("target_"):
            result[role] = model
            continue
        if id(model) not in wrapped:  # one model can have two roles
            wrapped[id(model)] = SkrlDDP(model)
            settle_buckets(wrapped[id(model)])
        result[role] = wrapped[id(model)]
    return result
