"""Pooled normalisers: on one process they are the library's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd, RunningMeanStdObs

from envlab.distributed.context import DistributedContext
from envlab.rl_games.env import PooledRunningMeanStd, PooledRunningMeanStdObs


def batches(*shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [5.0 + 3.0 * torch.randn(64, *shape, generator=generator) for _ in range(3)]


def test_one_process_gets_the_librarys_own_values():
    for shape in [(3,), (4, 4, 2)]:
        stock, pooled = RunningMeanStd(shape), PooledRunningMeanStd(shape, DistributedContext())
        for batch in batches(*shape):
            torch.testing.assert_close(pooled(batch), stock(batch))
        assert pooled.training
        for values in (stock, pooled):
            values.eval()
        batch = batches(*shape)[0] + 1.0
        torch.testing.assert_close(pooled(batch), stock(batch))
        torch.testing.assert_close(pooled(batch, denorm=True), stock(batch, denorm=True))
        torch.testing.assert_close(pooled.state_dict(), stock.state_dict())


def test_evaluation_changes_nothing():
    pooled = PooledRunningMeanStd((3,), DistributedContext()).eval()
    pooled(batches(3)[0])
    assert float(pooled.count) == 1.0


def test_values_are_those_of_hand_computation():
    """One sample at mean 0 and variance 1, with which the library begins, and 1, 3."""
    pooled = PooledRunningMeanStd((1,), DistributedContext())
    pooled(torch.tensor([[1.0], [3.0]]))
    assert float(pooled.running_mean) == pytest.approx(4 / 3)
    assert float(pooled.running_var) == pytest.approx((1 + 1 + 9) / 3 - (4 / 3) ** 2)
    assert float(pooled.count) == 3.0


def test_groups_of_observations_have_a_normaliser_each():
    shapes: Any = {"policy": (3,), "camera": (4, 4, 2)}
    stock, pooled = RunningMeanStdObs(shapes), PooledRunningMeanStdObs(shapes, DistributedContext())
    obs = {name: batches(*shape)[0] for name, shape in shapes.items()}
    torch.testing.assert_close(pooled(obs), stock(obs))
    torch.testing.assert_close(pooled.state_dict(), stock.state_dict())
