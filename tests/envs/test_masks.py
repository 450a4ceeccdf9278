"""Masks: clearing, copying and averaging by them; a kept mask is never out of date."""

from __future__ import annotations

import contextlib

import pytest
import torch

from envlab.envs.masks import assign, clear, computed_where, kept_rows, masked_means, rows_of
from envlab.sim import host

MASK = torch.tensor([True, False, True, False])


def test_masked_means_ignore_unmasked_values():
    values = torch.tensor([[1.0, 100.0, 3.0, torch.nan], [torch.inf, 0.0, 5.0, 0.0]])
    assert masked_means(values, MASK, 2) == [2.0, 2.5]
    assert masked_means(MASK.unsqueeze(0), MASK, 2) == [1.0]


@pytest.mark.parametrize("kinds", [{"cpu"}, set()], ids=["on a CPU", "on a GPU"])
def test_values_are_computed_where_a_cpu_needs_them(kinds: set[str], monkeypatch):
    monkeypatch.setattr(host, "HOST", kinds)
    inputs, asked = torch.arange(8.0).view(4, 2), []

    def total(rows: torch.Tensor | slice) -> torch.Tensor:
        asked.append(len(inputs[rows]))
        return inputs[rows].sum(dim=1)

    assert computed_where(MASK, total).tolist() == [1.0, 0.0, 9.0, 0.0]
    assert computed_where(MASK, lambda rows: inputs[rows]).tolist() == [
        [0, 1],
        [0, 0],
        [4, 5],
        [0, 0],
    ]
    assert not computed_where(torch.zeros(4, dtype=torch.bool), total).any()
    assert asked == ([2] if kinds else [4, 4])


def test_rows_are_cleared_and_copied_in_place_whatever_the_layout():
    for values in (torch.arange(8.0).view(4, 2), torch.arange(8.0).view(2, 4).T):
        untouched = values[~MASK].clone()
        assign(values, MASK, torch.full((4, 2), 9.0))
        assert values[MASK].tolist() == [[9.0, 9.0]] * 2
        clear(values, MASK)
        assert values[MASK].tolist() == [[0.0, 0.0]] * 2
        assert torch.equal(values[~MASK], untouched)


def test_rows_are_kept_while_a_reset_lasts_and_then_looked_up_anew():
    for mode in (contextlib.nullcontext(), torch.inference_mode()):
        with mode:
            mask = MASK.clone()
            with kept_rows(mask):
                assert rows_of(mask) is rows_of(mask)
                assert rows_of(mask).tolist() == [0, 2]
                assert rows_of(~mask).tolist() == [1, 3]
            mask[1] = True
            assert rows_of(mask).tolist() == [0, 1, 2]
