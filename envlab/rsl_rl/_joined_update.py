"""Gradients of a PPO's ranks in as few waits as DistributedDataParallel has.

rsl_rl 5.5.1 (``PPO.update``) sums the KL divergence over ranks, sends rank 0's learning rate, and
then reduces gradients: between nodes far apart each waits for the wire. Here the divergence travels
with the first gradients, and every rank computes the same rate from it, just before the step that
uses it. The values are the library's to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from rsl_rl.algorithms import PPO

from envlab.distributed.ddp import PolicyDDP

LOWEST_RATE, HIGHEST_RATE = 1e-5, 1e-2
"""Bounds of rsl_rl's adaptive learning rate, ``PPO.update``."""


def seeing(stock: Any, distributed: Any, **others: Any) -> Callable[..., Any]:
    """Return a function of the library that sees another ``torch.distributed``; its code stays.

    Args:
        stock: The library's function.
        distributed: What it sees in place of ``torch.distributed``.
        others: What it sees in place of other members of ``torch``, by their names.
    """
    names = stock.__code__.co_names
    seen = {name: getattr(torch, name) for name in names if hasattr(torch, name)}
    torch_seen = SimpleNamespace(**seen | {"distributed": distributed, **others})
    own = FunctionType(stock.__code__, {**stock.__globals__, "torch": torch_seen})
    return functools.update_wrapper(own, stock)


class JoinedUpdate:
    """Makes the library's updates of a PPO whose networks are in ``DistributedDataParallel``."""

    def __init__(self, alg: PPO, ddp: PolicyDDP) -> None:
        self._alg = alg
        self._rate = 0.0
        self._own: torch.Tensor | None = None
        self._total: torch.Tensor | None = None
        ddp.register_comm_hook(None, lambda _, bucket: self._reduce(bucket))
        alg.optimizer.register_step_pre_hook(self._adapt_rate)
        self._update = seeing(
            PPO.update,
            SimpleNamespace(
                all_reduce=self._hold, broadcast=self._keep_rate, ReduceOp=dist.ReduceOp
            ),
        )

    def __call__(self) -> dict[str, float]:
        """Return the mean losses."""
        self._rate = self._alg.learning_rate
        losses: dict[str, float] = self._update(self._alg)
        return losses

    def _hold(self, divergence: torch.Tensor, op: Any) -> None:
        """Keep this rank's divergence until the first gradients leave."""
        self._own = divergence.clone().reshape(1)

    def _keep_rate(self, rate: torch.Tensor, src: int) -> None:
        """Undo rank 0's change of the rate, which knew its own divergence alone."""
        rate.fill_(self._rate)

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket of gradients like DDP; the first bucket also carries the divergence."""
        flat = bucket.buffer().div_(self._alg.gpu_world_size)
        own, self._own = self._own, None
        if own is None:
            return _sum(flat).then(lambda done: done.value()[0])

        def take(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            joined = done.value()[0]
            self._total = joined[-1:]
            return joined[:-1]

        return _sum(torch.cat((flat, own.to(flat)))).then(take)

    def _adapt_rate(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Change the learning rate as ``PPO.update`` does, on every rank alike."""
        total, self._total = self._total, None
        if total is None:
            return
        alg = self._alg
        assert alg.desired_kl is not None
        divergence = float(total / alg.gpu_world_size)
        if divergence > alg.desired_kl * 2.0:
            self._rate = max(LOWEST_RATE, self._rate / 1.5)
        elif 0.0 < divergence < alg.desired_kl / 2.0:
            self._rate = min(HIGHEST_RATE, self._rate * 1.5)
        self._rate = torch.tensor(self._rate).item()  # as it is after the library's broadcast
        alg.learning_rate = self._rate
        for group in optimizer.param_groups:
            group["lr"] = self._rate


def _sum(flat: torch.Tensor) -> torch.futures.Future[list[torch.Tensor]]:
    work = dist.all_reduce(flat, async_op=True)
    assert work is not None
    return work.get_future()
