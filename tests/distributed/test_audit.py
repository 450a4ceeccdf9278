"""The audit on three ranks, so that there is a majority to compare with."""

from __future__ import annotations

import pytest
import torch

from envlab.distributed import audit as module
from envlab.distributed.audit import audit, checksum, combined, digest, digests, flatten
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


ONE = torch.tensor([1.0, 0.0])
OTHERS = {
    "sign of zero": torch.tensor([1.0, -0.0]),
    "least change": torch.nextafter(ONE, torch.tensor([2.0, 0.0])),
    "order": torch.tensor([0.0, 1.0]),
    "sign": -ONE,
}
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16, torch.bool]


def sums(tensor: torch.Tensor) -> list[int]:
    return checksum(tensor).tolist()


def test_both_ways_distinguish_bits_and_a_digest_shape_and_dtype_too():
    for other in OTHERS.values():
        assert digest(ONE) != digest(other)
        assert all(first != second for first, second in zip(sums(ONE), sums(other), strict=True))
    for other in [ONE.reshape(1, 2), ONE.double(), torch.cat((ONE, torch.zeros(1)))]:
        assert digest(ONE) != digest(other)


def test_the_same_nan_is_equal_and_another_is_not():
    nan = torch.tensor([float("nan")])
    other = (nan.view(torch.int32) + 1).view(torch.float32)
    assert other.isnan().all()
    for function in (digest, lambda tensor: str(sums(tensor))):
        assert function(nan) == function(nan.clone())
        assert function(nan) != function(other)


def test_memory_layout_makes_no_difference():
    values = torch.arange(6.0).reshape(2, 3)
    assert digest(values.T) == digest(values.T.contiguous())
    assert sums(values.T) == sums(values.T.contiguous())
    assert digest(torch.tensor(1.0)) == digest(torch.tensor(1.0))


def test_other_values_than_tensors_are_distinguished_by_type_and_value():
    assert digest(0.1) == digest(0.1)
    assert digest(0.1) != digest(0.1 + 1e-17 + 2e-17)
    assert len({digest(value) for value in (1, 1.0, "1", None, True, -0.0, 0.0)}) == 7
    assert digest(float("nan")) == digest(float("nan"))


def test_a_checksum_notices_each_element_of_every_type():
    for dtype in TYPES:
        values = torch.arange(12).to(dtype)
        found = {str(sums(values))}
        for index in range(len(values)):
            changed = values.clone()
            changed[index] = 0 if values[index] else 1
            found.add(str(sums(changed)))
        assert len(found) == 1 + len(values)


def test_a_checksum_notices_blocks_that_changed_places(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    module.block_weights.cache_clear()
    blocks = torch.arange(24.0).reshape(3, 8)
    orders = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0]]
    assert len({str(sums(blocks[order])) for order in orders}) == 4
    assert sums(torch.zeros(0)) == [0, 0]
    module.block_weights.cache_clear()


def test_a_digest_of_all_depends_on_names_and_values_and_not_on_their_order():
    first = combined(digests({"a": 1, "b": 2}))
    assert first == combined(digests({"b": 2, "a": 1}))
    assert len({first, combined(digests({"a": 2, "b": 1})), combined(digests({"a": 1}))}) == 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_tensors_on_a_gpu_are_waited_for_once():
    values = {f"{dtype}": torch.arange(1000).to(dtype).cuda() for dtype in TYPES}
    digests(values)  # creates the weights
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        found = digests(values)
    copies = [event for event in profile.events() if "Memcpy DtoH" in event.name]
    assert len(copies) == 1
    for name, tensor in values.items():
        words = "".join(f"{number % 2**64:016x}" for number in sums(tensor.cpu()))
        assert found[name].endswith(words)
