"""Scalers know all samples of all ranks."""

from __future__ import annotations

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.fast_sac.collection import EPSILON, ObsScaler, RewardScaler

ALONE = DistributedContext.single("cpu")


def test_observations_are_scaled_to_a_deviation_of_one():
    torch.manual_seed(0)
    scaler, samples = ObsScaler(2, ALONE), torch.randn(1000, 2) * 3.0 + 7.0
    assert torch.equal(scaler(samples), samples)  # no statistics yet
    scaler.add(samples)
    scaled = scaler(samples)
    assert scaled.mean(dim=0).tolist() == pytest.approx([0.0, 0.0], abs=1e-5)
    assert scaled.std(dim=0).tolist() == pytest.approx([3.0 / (3.0 + EPSILON)] * 2, rel=0.05)


def test_running_returns_are_discounted_and_end_with_their_episodes():
    scaler, before = RewardScaler(gamma=0.5, v_max=5.0, context=ALONE), torch.zeros(2)
    ended = torch.tensor([False, True])
    first = scaler.returns(before, torch.tensor([1.0, 2.0]), ended)
    second = scaler.returns(before, torch.tensor([4.0, 8.0]), ended)
    assert (first.tolist(), second.tolist()) == ([1.0, 2.0], [4.5, 8.0])


def test_rewards_are_divided_by_the_returns_spread_or_by_the_largest_one():
    scaler = RewardScaler(gamma=0.99, v_max=5.0, context=ALONE)
    assert float(scaler.factor) == 1.0
    scaler.add(torch.tensor([[-1.0, 3.0], [3.0, -1.0]]))  # deviation 2, largest 3
    assert float(scaler.factor) == pytest.approx(1.0 / 2.0)
    scaler.add(torch.tensor([[-40.0]]))  # 40 / 5 is 8, the deviation 16.7
    assert float(scaler.factor) == pytest.approx(1.0 / float(scaler.running_var[0].sqrt()))
    calm = RewardScaler(gamma=0.99, v_max=5.0, context=ALONE)
    calm.add(torch.full((1000,), 100.0))  # without any spread
    assert float(calm.factor) == pytest.approx(5.0 / 100.0)
