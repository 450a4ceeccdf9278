"""What counts as an operation."""

from __future__ import annotations

import torch

from tests.operations import Operations


def test_rows_of_several_types_are_joined_one_by_one():
    one, other = torch.ones(3), torch.zeros(3, dtype=torch.bool)
    for rows, count in (([one, one, one], 1), ([one, other, other], 3)):
        with Operations() as operations:
            torch.stack(rows)
        assert operations.count == count
        with Operations() as operations:
            torch.cat(rows)
        assert operations.count == count
    table = torch.zeros(2, 3)
    with Operations() as operations:
        torch.stack([other, other], out=table)
    assert operations.count == 2
    with Operations() as operations:
        table.T.unflatten(0, (3, 1))
    assert operations.count == 0
