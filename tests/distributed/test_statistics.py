"""Statistics over ranks against the same statistics of the concatenated data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import (
    Moments,
    RunningMoments,
    WeightedMeans,
    merge_moments,
    pooled_moments,
)


def test_pooled_moments_are_those_of_all_data(pair: list[dict[str, Any]]):
    everything = torch.cat([rank["statistics"]["samples"] for rank in pair]).double()
    expected = [float(everything.mean()), float(everything.std())]
    for rank in pair:
        assert rank["statistics"]["moments"] == pytest.approx(expected, rel=1e-6)
    assert pair[0]["statistics"]["moments"] == pair[1]["statistics"]["moments"]


def test_one_process_has_its_own_moments():
    mean, std = pooled_moments(torch.tensor([1.0, 2.0, 6.0]), DistributedContext())
    assert (float(mean), float(std)) == pytest.approx((3.0, 7.0**0.5))


def test_merged_moments_are_those_of_both_batches():
    """1, 3 and 2, 4, 9: the mean of all five is 3.8, and their squares sum up to 111."""
    batches = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0, 9.0])
    first, second = (
        Moments(one.mean(), one.var(correction=0), torch.tensor(len(one))) for one in batches
    )
    mean, variance, count = merge_moments(first, second)
    assert (float(mean), int(count)) == (pytest.approx(3.8), 5)
    assert float(variance) == pytest.approx(111 / 5 - 3.8**2)


def test_running_moments_are_those_of_three_ranks(trio: list[dict[str, Any]]):
    """0, 2 and 4 and 6, 8, 10; then 5 and 6 and 7."""
    first = [5.0, pytest.approx(220 / 6 - 5**2), 6.0]
    second = [pytest.approx(48 / 9), pytest.approx(330 / 9 - (48 / 9) ** 2), 9.0]
    assert trio[0]["moments"] == [first, second]
    assert trio[1]["moments"] == trio[2]["moments"] == trio[0]["moments"]


def test_running_moments_do_not_cancel_far_from_zero():
    torch.manual_seed(0)
    samples = torch.randn(400, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 1e4, -2.0])
    moments = RunningMoments((3,), DistributedContext())
    for part in samples.split(100):
        moments.add(part)
    torch.testing.assert_close(moments.running_mean, samples.double().mean(dim=0))
    expected = samples.double().var(dim=0, correction=0)
    torch.testing.assert_close(moments.running_var, expected, rtol=1e-9, atol=0.0)


def test_means_are_weighted_by_samples_of_all_ranks_and_start_anew(pair: list[dict[str, Any]]):
    # Sums 3 + 1 of two samples and 10 + 1 of five; not the mean 2.1 of the ranks' means 2 and 2.2.
    expected = {"both": (15.0 / 7.0, 7.0), "only rank 1": (2.0, 3.0)}
    assert [rank["statistics"]["means"] for rank in pair] == [expected, expected]
    assert [rank["statistics"]["again"] for rank in pair] == [{}, {}]
    means = WeightedMeans()
    means.add("x", torch.tensor(4.0), torch.tensor(2))
    means.add("x", 1.0, 3.0)
    assert means.reduce(DistributedContext().gather) == {"x": (1.0, 5.0)}
