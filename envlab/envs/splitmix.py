"""SplitMix64, a generator whose n-th output is computed directly, in torch and in NumPy.

Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014. The n-th output
is a hash of ``key + n * GAMMA``.
"""

from __future__ import annotations

import numpy as np
import torch

GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIER_1 = 0xBF58476D1CE4E5B9
_MULTIPLIER_2 = 0x94D049BB133111EB


def signed(value: int) -> int:
    """Return the 64-bit two's complement of ``value``: torch has no unsigned 64-bit arithmetic."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >= 1 << 63 else value


def shift_right(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift logically; torch's ``>>`` on int64 repeats the sign bit."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def mix(values: torch.Tensor) -> torch.Tensor:
    """Return SplitMix64's output function of int64 ``values`` (any shape), taken modulo 2^64."""
    values = _mix_upper(values)
    return values ^ shift_right(values, 31)


def _mix_upper(values: torch.Tensor) -> torch.Tensor:
    """Return the same except for the lower 33 bits, which only the last step completes."""
    values = (values ^ shift_right(values, 30)) * signed(_MULTIPLIER_1)
    return (values ^ shift_right(values, 27)) * signed(_MULTIPLIER_2)


# Made once: a reset draws few numbers at a time, and a conversion takes as long as a draw.
_U27, _U30, _U31, U40 = (np.uint64(shift) for shift in (27, 30, 31, 40))
_U_MULTIPLIER_1, _U_MULTIPLIER_2 = np.uint64(_MULTIPLIER_1), np.uint64(_MULTIPLIER_2)


def mix_numpy(values: np.ndarray) -> np.ndarray:
    """Return the same for uint64 ``values``, overwriting them."""
    values ^= values >> _U30
    values *= _U_MULTIPLIER_1
    values ^= values >> _U27
    values *= _U_MULTIPLIER_2
    values ^= values >> _U31
    return values


def scaled(states: torch.Tensor, low: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    """Return float32 draws of SplitMix64's states: 24 bits each, times ``width``, plus ``low``."""
    return (shift_right(_mix_upper(states), 40) * width).add_(low)
