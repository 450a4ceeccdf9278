"""Masks: what is cleared, copied and averaged, and that a kept mask is never out of date."""

from __future__ import annotations

import contextlib

import torch

from envlab.envs.masks import assign, clear, kept_rows, masked_means, rows_of

MASK = torch.tensor([True, False, True, False])


def test_masked_means_ignore_what_is_not_masked():
    values = torch.tensor([[1.0, 100.0, 3.0, torch.nan], [torch.inf, 0.0, 5.0, 0.0]])
    assert masked_means(values, MASK, 2) == [2.0, 2.5]
    assert masked_means(MASK.unsqueeze(0), MASK, 2) == [1.0]


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
