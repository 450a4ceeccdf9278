"""A rate in a tensor changes as the number of Python that libraries keep, for each kind of Adam."""

from __future__ import annotations

import pytest
import torch

from envlab.training.adaptive_rate import AdaptiveRate
from tests.graphs import capturable_on_a_cpu

KINDS = {"one by one": {"foreach": False}, "together": {"foreach": True}, "fused": {"fused": True}}
"""torch's implementations; on a GPU, parameters are stepped together unless a library says more."""


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_a_number(kind: str):
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.randn(*shape)) for shape in ((5, 3), (3,))]
    theirs = [torch.nn.Parameter(one.detach().clone()) for one in mine]
    optimizers = [torch.optim.Adam(some, lr=1.0, **KINDS[kind]) for some in (mine, theirs)]
    rate, number = AdaptiveRate(optimizers[0], "cpu"), 1e-3
    for divergence in (0.1, 0.1, 1.0, 5.0, 9.0, 0.1):
        for one, other in zip(mine, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        rate.begin(number)
        measured = torch.tensor(divergence)
        rate.adapt(measured > 2.0, measured < 0.5, lowest=8e-4, highest=2e-3, factor=1.5)
        if divergence > 2.0:
            number = max(number / 1.5, 8e-4)
        elif divergence < 0.5:
            number = min(number * 1.5, 2e-3)
        optimizers[1].param_groups[0]["lr"] = number
        with capturable_on_a_cpu():
            optimizers[0].step()
        optimizers[1].step()
        assert float(rate.value) == number
        rate.end(number)
        (group,) = optimizers[0].param_groups
        assert (group["lr"], group["capturable"]) == (number, False)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert optimizers[0].state_dict()["state"][0]["step"] == 6
