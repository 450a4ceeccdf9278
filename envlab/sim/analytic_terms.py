"""Sums of products over the batch, without terms that are zero in every environment.

A model's constants are numbers if all environments share them, and tensors, ``(num_envs,)``, if
they are randomised. Most of a drone's are zero, so leaving them out halves the time of its step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

Value = torch.Tensor | float
"""A number that all environments share, or one for each, ``(num_envs,)``."""

Wrenches = Sequence[tuple[int, Sequence[torch.Tensor]]]
"""Bodies with their world-frame force (N) and torque (N m), six tensors ``(num_envs,)``."""


def dot(*terms: tuple[Value, Value], minus: Sequence[tuple[Value, Value]] = ()) -> Value:
    """Return the sum of ``factor * value``, in as few tensor operations as there are terms.

    Args:
        terms: Added products.
        minus: Subtracted products.
    """
    total: Value = 0.0
    for factor, value in terms:
        total = _add(total, factor, value, 1.0)
    for factor, value in minus:
        total = _add(total, factor, value, -1.0)
    return total


def _add(total: Value, factor: Value, value: Value, sign: float) -> Value:
    if isinstance(value, float):
        factor, value = value, factor
    if isinstance(factor, float):
        factor *= sign
        if isinstance(value, float):
            number = factor * value
            return total + number if number else total
        if factor == 0.0:
            return total
        if isinstance(total, torch.Tensor):
            return torch.add(total, value, alpha=factor)
        product = value if factor == 1.0 else value * factor
    else:
        assert isinstance(value, torch.Tensor)
        if isinstance(total, torch.Tensor):
            return torch.addcmul(total, factor, value, value=sign)
        product = factor * value if sign > 0.0 else -(factor * value)
    return product + total if total else product


def cross(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Return the cross product of two vectors, each as three values."""
    return [
        dot((left[i - 2], right[i - 1]), minus=((left[i - 1], right[i - 2]),)) for i in range(3)
    ]


def shared(values: torch.Tensor) -> list[Value]:
    """Return the columns of constants, ``(1, k)`` or ``(num_envs, k)``; numbers in the first case.

    Numbers that are only rounding errors become zero.
    """
    if values.shape[0] > 1:
        return [column.float().contiguous() for column in values.unbind(1)]
    row = values[0].double().cpu().numpy()
    tiny = 1e-12 * np.abs(row).max(initial=0.0)
    return [0.0 if abs(value) <= tiny else float(value) for value in row]
