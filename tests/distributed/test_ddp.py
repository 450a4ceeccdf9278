"""The policy in DistributedDataParallel, on two ranks; the numbers follow from worker_pair.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from envlab.distributed.context import leave_process_group
from envlab.distributed.ddp import PolicyDDP


def test_gradients_are_the_mean_over_ranks_and_parameters_stay_equal(pair: list[dict[str, Any]]):
    # The gradient of the mean is (1 + rank) / 2, so 0.75 over both ranks, and twice that for the
    # critic. Two SGD steps of rate 0.5 from rank 0's weights 1 and 6.
    for rank in pair:
        assert rank["data_parallel"]["gradient"].tolist() == [[2.0, 4.0]]
        assert rank["data_parallel"]["actor"].tolist() == [[1.0 - 0.75, 1.0 - 0.75]]
        assert rank["data_parallel"]["critic"].tolist() == [[6.0 - 1.5, 6.0 - 1.5]]


def test_a_wrapped_module_has_its_names_attributes_and_buffers_and_rollouts_bypass_the_reducer(
    pair: list[dict[str, Any]],
):
    for rank in pair:
        assert sorted(rank["data_parallel"]["keys"]) == ["linear.weight", "seen"]
        assert sorted(rank["data_parallel"]["actor_keys"]) == ["linear.weight", "seen"]
    assert pair[1]["data_parallel"]["nickname"] == ("net", "net")
    assert [rank["data_parallel"]["calls_without_gradients"] for rank in pair] == [0, 0]
    assert [rank["data_parallel"]["buffer"] for rank in pair] == [5.0, 6.0]


def test_a_fresh_module_resumes_bit_identically_on_three_ranks(trio: list[dict[str, Any]]):
    assert [rank["resumed differently"] for rank in trio] == [[], [], []]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    where = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    yield
    leave_process_group()


@pytest.mark.usefixtures("group")
def test_rollouts_do_not_touch_ddp_at_all(monkeypatch: pytest.MonkeyPatch):
    """DDP's own forward would prepare its reducer for a backward pass that never comes."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("went through DDP")

    net = PolicyDDP(torch.nn.Linear(2, 2))
    monkeypatch.setattr(torch.nn.parallel.DistributedDataParallel, "forward", refuse)
    with torch.inference_mode():
        assert net(torch.zeros(3, 2)).shape == (3, 2)


@pytest.mark.usefixtures("group")
def test_convolutions_over_permuted_images_warn_of_nothing():
    """With one channel, the strides of their gradients differ from DDP's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = PolicyDDP(torch.nn.Conv2d(1, 16, 8, stride=4))
        net(torch.rand(4, 64, 64, 1).permute(0, 3, 1, 2)).sum().backward()
