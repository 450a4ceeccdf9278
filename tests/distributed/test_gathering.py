"""Large values come to rank 0 as they were, whatever holds them."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from envlab.distributed.audit import flatten
from envlab.distributed.gathering import MIN_BYTES, pack
from tests.distributed.worker_pair import large_value


def test_large_values_of_all_ranks_come_to_rank_0(pair: list[dict[str, Any]]):
    gathered = [rank["collectives"]["large"] for rank in pair]
    assert gathered[1] is None
    for rank, value in enumerate(gathered[0]):
        check_large_value(value, rank)


def test_each_rank_gets_its_part_of_the_values_of_rank_0(pair: list[dict[str, Any]]):
    for rank in range(2):
        check_large_value(pair[rank]["collectives"]["own"], rank)


def check_large_value(value: dict[str, Any], rank: int) -> None:
    assert value["columns"][1] == "text"
    for name, part in flatten(large_value(rank)).items():
        if isinstance(part, torch.Tensor):
            torch.testing.assert_close(flatten(value)[name], part, rtol=0.0, atol=0.0)
    assert type(value["columns"]) is tuple
    assert value["columns"][0].nbytes > MIN_BYTES > value["small"][0].nbytes


def test_ranks_that_move_large_values_are_seen_to_make_progress(pair: list[dict[str, Any]]):
    num_pieces = 4 + 1 + 2  # of 800, 100 and 400 kB, at 256 KiB
    assert [rank["collectives"]["pieces"] for rank in pair] == [(num_pieces, num_pieces)] * 2


def test_tensors_of_a_gpu_arrive_on_the_cpu():
    with FakeTensorMode():
        light, parcels = pack([torch.zeros(size, device="cuda") for size in (3, MIN_BYTES)])
        assert [light[0].device.type, parcels[0].device.type] == ["cpu", "cpu"]
