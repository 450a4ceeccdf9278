"""Large values come to rank 0 as they were, whatever holds them."""

from __future__ import annotations

from typing import Any

import torch

from envlab.distributed.audit import flatten
from envlab.distributed.gathering import MIN_BYTES
from tests.distributed.worker_pair import large_value


def test_large_values_of_all_ranks_come_to_rank_0(pair: list[dict[str, Any]]):
    gathered = [rank["collectives"]["large"] for rank in pair]
    assert gathered[1] is None
    for rank, value in enumerate(gathered[0]):
        wanted = large_value(rank)
        assert value["columns"][1] == "text"
        for name, part in flatten(wanted).items():
            if isinstance(part, torch.Tensor):
                torch.testing.assert_close(flatten(value)[name], part, rtol=0.0, atol=0.0)
        assert type(value["columns"]) is tuple
        assert value["columns"][0].nbytes > MIN_BYTES > value["small"][0].nbytes
