"""``isaacgym.gymtorch``: conversion between Isaac Gym's tensors and torch's.

A name ``Tensor`` here would shadow torch's in tasks that import everything and then write type
comments for TorchScript, hence ``__all__``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from envlab_isaacgym import tensor

__all__ = ["unwrap_tensor", "wrap_tensor"]


def wrap_tensor(
    gym_tensor: tensor.Tensor,
    offsets: Sequence[int] | None = None,
    counts: Sequence[int] | None = None,
) -> torch.Tensor:
    """Return the torch tensor of a tensor of Isaac Gym; no copy is made.

    Args:
        gym_tensor: Result of ``acquire_*``.
        offsets: Start of a part of it, in each dimension.
        counts: Size of that part.
    """
    wrapped = gym_tensor.values
    if offsets is None or counts is None:
        return wrapped
    parts = [slice(start, start + count) for start, count in zip(offsets, counts, strict=True)]
    return wrapped[tuple(parts)]


def unwrap_tensor(torch_tensor: torch.Tensor) -> tensor.Tensor:
    """Return a tensor for ``set_*`` and ``apply_*``.

    Raises:
        ValueError: If it is not contiguous, as Isaac Gym demands.
    """
    if not torch_tensor.is_contiguous():
        raise ValueError("unwrap_tensor: the tensor must be contiguous. Call .contiguous() first.")
    return tensor.Tensor(torch_tensor)
