"""Statistics over ranks against the same statistics of the concatenated data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import WeightedMeans, pooled_moments


def test_pooled_moments_are_those_of_all_data(pair: list[dict[str, Any]]):
    everything = torch.cat([rank["statistics"]["samples"] for rank in pair]).double()
    expected = [float(everything.mean()), float(everything.std())]
    for rank in pair:
        assert rank["statistics"]["moments"] == pytest.approx(expected, rel=1e-6)
    assert pair[0]["statistics"]["moments"] == pair[1]["statistics"]["moments"]


def test_one_process_has_its_own_moments():
    mean, std = pooled_moments(torch.tensor([1.0, 2.0, 6.0]), DistributedContext())
    assert (float(mean), float(std)) == pytest.approx((3.0, 7.0**0.5))


def test_means_are_weighted_by_samples_of_all_ranks(pair: list[dict[str, Any]]):
    # Sums 3 + 1 of two samples and 10 + 1 of five; not the mean 2.1 of the ranks' means 2 and 2.2.
    expected = {"both": (15.0 / 7.0, 7.0), "only rank 1": (2.0, 3.0)}
    assert [rank["statistics"]["means"] for rank in pair] == [expected, expected]


def test_means_start_anew_after_a_reduction(pair: list[dict[str, Any]]):
    assert [rank["statistics"]["again"] for rank in pair] == [{}, {}]


def test_means_of_one_process():
    means = WeightedMeans()
    means.add("x", torch.tensor(4.0), torch.tensor(2))
    means.add("x", 1.0, 3.0)
    assert means.reduce(DistributedContext()) == {"x": (1.0, 5.0)}
