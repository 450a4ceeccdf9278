"""Rotations of batched vectors by quaternions (x, y, z, w)."""

from __future__ import annotations

import torch


def rotate(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return vectors ``(..., 3)`` rotated by unit quaternions ``(..., 4)``."""
    axis = quat[..., :3]
    twice = 2.0 * torch.linalg.cross(axis, vector)
    return vector + quat[..., 3:] * twice + torch.linalg.cross(axis, twice)


def rotate_inverse(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return vectors ``(..., 3)`` rotated by the inverses of unit quaternions ``(..., 4)``."""
    axis = quat[..., :3]
    twice = 2.0 * torch.linalg.cross(vector, axis)
    return vector + quat[..., 3:] * twice + torch.linalg.cross(twice, axis)
