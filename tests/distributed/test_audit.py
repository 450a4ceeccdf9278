"""The audit on three ranks, so that there is a majority to compare with."""

from __future__ import annotations

from envlab.distributed.audit import audit, flatten
from envlab.distributed.context import DistributedContext


def test_all_that_differs_is_named_and_equal_ranks_pass(audits: list[dict[str, str | None]]):
    assert [rank["equal"] for rank in audits] == [None, None, None]
    assert audits[0] == audits[1] == audits[2]
    message = audits[0]["two changed"]
    assert "a on rank 1 differs from ranks 0, 2; b.1 on ranks 1, 2 differs from rank 0" in message
    message = audits[0]["same streams"]
    assert "streams is the same on ranks 0, 1, but every rank needs its own" in message
    assert "rate on rank 2 differs from ranks 0, 1" in audits[0]["missing"]


def test_one_changed_bit_is_named_with_tensor_ranks_and_iteration(audits):
    message = audits[0]["changed"]
    assert "iteration 7: actor.w on rank 1 differs from ranks 0, 2." in message
    assert "actor.v" not in message


def test_names_are_paths_and_one_process_has_nothing_to_compare():
    assert audit(DistributedContext(), {"a": 1}, {"b": 2}, iteration=1) is None
    values = {"optimizer": {"state": {0: {"step": 1}}, "groups": [{"lr": 0.1}]}}
    assert flatten(values) == {"optimizer.state.0.step": 1, "optimizer.groups.0.lr": 0.1}
